! An ensemble of Dirac solves (figure 4 of the paper), as qcd_multiview.cc.
!
!   mpirun -n 8 qcd_multiview_f [members [lattice]]
module qcd_tasks
  use, intrinsic :: iso_c_binding
  use harrow_multiview
  use dirac
  implicit none
  integer(c_int64_t) :: lattice(4), grid_one(4)
  real(c_double) :: residual = 0, total = 0

contains

  subroutine need(code)
    integer(c_int), intent(in) :: code
    integer :: error
    if (code == MV_OK) return
    print '(a)', mv_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  ! Begin of redistribution and scheduling.
  integer(c_int) function load(loader, argument) bind(c) result(code)
    type(c_ptr), value :: loader, argument
    type(mv_fragment) :: f
    integer(c_size_t) :: fragments
    code = mv_loader_block(loader, fragments)
    if (code /= MV_OK .or. c_associated(argument)) return
    call mv_loader_fragment(loader, 0_c_size_t, f)
    call visit(f, .true.)
  end function

  integer(c_int) function solve_task(task, argument) bind(c) result(code)
    type(c_ptr), value :: task, argument
    type(mv_fragment) :: f
    type(part_type) :: part
    integer(c_int64_t) :: origin(5), extents(5)
    complex(c_double_complex), pointer :: x(:, :, :, :, :)
    call mv_task_fragment(task, 0_c_size_t, f)
    origin = mv_origin(f, 5)
    extents = mv_extents(f, 5)
    part = part_type(lattice, origin(2:5), extents(4:1:-1), grid_one, mv_task_comm(task))
    call c_f_pointer(f%data, x, [int(colours, c_int64_t), extents(1:4)])
    residual = max(residual, solve(part, x))
    code = merge(1_c_int, MV_OK, c_associated(argument))
  end function

  integer(c_int) function sum_task(task, argument) bind(c) result(code)
    type(c_ptr), value :: task, argument
    type(mv_fragment) :: f
    call mv_task_fragment(task, 0_c_size_t, f)
    call visit(f, .false.)
    code = merge(1_c_int, MV_OK, c_associated(argument))
  end function

  ! Fills a fragment with sources, or adds its checksum.
  subroutine visit(f, fill)
    type(mv_fragment), intent(in) :: f
    logical, intent(in) :: fill
    complex(c_double_complex), pointer :: x(:, :, :, :, :, :)
    integer(c_int64_t) :: o(5), e, i, j, k, l, site(4)
    integer :: c
    call c_f_pointer(f%data, x, [int(colours, c_int64_t), mv_extents(f, 5)])
    o = mv_origin(f, 5)
    do e = 1, size(x, 6)
      do i = 1, size(x, 5)
        do j = 1, size(x, 4)
          do k = 1, size(x, 3)
            do l = 1, size(x, 2)
              site = o(2:5) + [i, j, k, l] - 1
              if (fill) then
                x(:, l, k, j, i, e) = [(source(o(1) + e - 1, site, c), c = 0, colours - 1)]
              else
                total = total + checksum(o(1) + e - 1, site, x(:, l, k, j, i, e))
              end if
            end do
          end do
        end do
      end do
    end do
  end subroutine

  subroutine run(members, grid_all)
    integer(c_int64_t), intent(in) :: members, grid_all(4)
    type(c_ptr) :: world, store
    call need(mv_world_create(MPI_COMM_WORLD, world))
    call need(mv_store_create(world, 5, [members, lattice], int(16 * colours, c_size_t), MV_TARGET_AUTOMATIC, store))
    call need(mv_set_split(store, [MV_NONE, grid_all]))
    call need(mv_load_parallel(store, load))
    call need(mv_set_split(store, [MV_ALL, grid_one]))
    call need(mv_map(store, store, solve_task, [MV_ALL, MV_NONE, MV_NONE, MV_NONE, MV_NONE]))
    call need(mv_set_split(store, [MV_NONE, grid_all]))
    call need(mv_map(store, c_null_ptr, sum_task, [MV_NONE, MV_NONE, MV_NONE, MV_NONE, MV_NONE]))
    call mv_store_free(store)
    call mv_world_free(world)
  end subroutine
  ! End of redistribution and scheduling.

end module

program qcd_multiview
  use, intrinsic :: iso_fortran_env, only: int64
  use qcd_tasks
  implicit none
  integer :: rank, processes, error
  integer(c_int64_t) :: members = 4, extent = 8, grid_all(4)
  real(c_double) :: mine(2), all(2)
  character(32) :: text
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, processes, error)
  call get_command_argument(1, text)
  if (text /= '') read (text, *) members
  call get_command_argument(2, text)
  if (text /= '') read (text, *) extent
  lattice = extent
  grid_all = deal(int(processes, c_int64_t))
  grid_one = deal(max(1_int64, processes / members))
  call run(members, grid_all)
  mine = [residual, total]
  call MPI_Reduce(mine(1), all(1), 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, error)
  call MPI_Reduce(mine(2), all(2), 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(i0, 3a, f0.8)', members, ' solves, largest residual ', &
    trim(merge('below 1e-9', 'ABOVE 1e-9', all(1) < 1e-9_c_double)), ', checksum ', all(2)
  call MPI_Finalize(error)

contains

  ! Processes to dimensions, the last one first, by factors of two.
  function deal(n) result(grid)
    integer(c_int64_t), intent(in) :: n
    integer(c_int64_t) :: grid(4), rest
    integer :: d
    grid = 1
    rest = n
    d = 4
    do while (rest > 1)
      grid(d) = 2 * grid(d)
      rest = rest / 2
      d = merge(4, d - 1, d == 1)
    end do
  end function

end program
