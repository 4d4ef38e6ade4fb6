! As from_c.c.
module matrix_tasks
  use, intrinsic :: iso_c_binding
  use harrow_multiview
  implicit none
contains
  integer(c_int) function load(loader, argument) bind(c) result(code)
    type(c_ptr), value :: loader, argument
    type(mv_fragment) :: f
    integer(c_size_t) :: i, fragments
    integer(c_int64_t) :: origin(2), r, c
    real(c_double), pointer :: x(:, :)
    code = mv_loader_block(loader, fragments)
    if (code /= MV_OK .or. c_associated(argument)) return
    do i = 1, fragments
      call mv_loader_fragment(loader, i - 1, f)
      call c_f_pointer(f%data, x, mv_extents(f, 2))
      origin = mv_origin(f, 2)
      do r = 1, size(x, 2)
        do c = 1, size(x, 1)
          x(c, r) = real(10 * (origin(1) + r - 1) + origin(2) + c - 1, c_double)
        end do
      end do
    end do
  end function

  integer(c_int) function sum_task(task, argument) bind(c) result(code)
    type(c_ptr), value :: task, argument
    integer(c_int64_t) :: key(2), at(2), i
    integer(c_size_t) :: bytes
    type(c_ptr) :: element
    real(c_double), pointer :: x
    real(c_double), target :: total
    code = merge(1_c_int, MV_OK, c_associated(argument))
    call mv_task_key(task, key)
    total = 0
    do i = 0, mv_task_elements(task) - 1
      code = mv_task_element(task, i, at, element, bytes)
      if (code /= MV_OK) return
      call c_f_pointer(element, x)
      total = total + x
    end do
    code = mv_task_put(task, key(2:2), c_loc(total), 8_c_size_t)
  end function
end module

program from_fortran
  use mpi
  use matrix_tasks
  implicit none
  type(c_ptr) :: world, matrix, sums
  integer(c_int64_t) :: c
  integer(c_size_t) :: bytes
  real(c_double), target :: totals(5)
  integer :: error
  call MPI_Init(error)
  call need(mv_world_create(MPI_COMM_WORLD, world))
  call need(mv_store_create(world, 2, [6_c_int64_t, 5_c_int64_t], 8_c_size_t, MV_TARGET_AUTOMATIC, matrix))
  call need(mv_store_create(world, 1, [5_c_int64_t], 8_c_size_t, MV_TARGET_AUTOMATIC, sums))
  call need(mv_set_split(matrix, [MV_ALL, MV_NONE]))
  call need(mv_load_parallel(matrix, load))
  call need(mv_set_split(matrix, [MV_NONE, MV_ALL]))
  call need(mv_map(matrix, sums, sum_task, [MV_NONE, MV_ALL]))
  do c = 1, 5
    call need(mv_get(sums, [c - 1], c_loc(totals(c)), 8_c_size_t, bytes))
  end do
  if (mv_world_rank(world) == 0) print '(*(i0, 1x))', int(totals)
  error = mv_set_split(matrix, [7_c_int64_t, 1_c_int64_t])
  if (error /= MV_INVALID .or. len(mv_message()) == 0) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  call mv_store_free(sums)
  call mv_store_free(matrix)
  call mv_world_free(world)
  call MPI_Finalize(error)
contains
  subroutine need(code)
    integer(c_int), intent(in) :: code
    if (code == MV_OK) return
    print '(a)', mv_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
