! Multi-View in Fortran 2008: the names and meanings of <harrow/multiview.h>, whose conventions hold here, too.
!
! - Handles are type(c_ptr). Functions return MV_OK or what went wrong, mv_message() tells more.
! - Coordinates and numbers of fragments and elements count from 0 and dimensions are in the order of C (the first varies
!   slowest), so that a place has the same numbers in every language. As a Fortran array a fragment has its extents in reverse:
!   call c_f_pointer(fragment%data, array, mv_extents(fragment, dimensions)), where fragment%contiguous is not 0 (what
!   mv_loader_block gives always is); other fragments are visited element by element with mv_task_element.
! - Load functions and tasks are procedures with bind(c); `argument` (a c_loc of what they need) is handed through.
module harrow_multiview
  use, intrinsic :: iso_c_binding
  implicit none
  private :: text_of

  integer(c_int), parameter :: MV_OK = 0, MV_INVALID = 1, MV_NOT_FOUND = 2, MV_TASK_FAILED = 3, MV_MEMORY = 4, &
                               MV_STORAGE = 5, MV_INTERNAL = 6
  integer(c_int64_t), parameter :: MV_ALL = -1, MV_NONE = -2
  integer(c_int), parameter :: MV_TARGET_AUTOMATIC = 0, MV_TARGET_MEMORY = 1, MV_TARGET_FILE = 2
  integer(c_int), parameter :: MV_IN_ORDER = 0, MV_LEAST_MOVED = 1

  type, bind(c) :: mv_options
    integer(c_int64_t) :: memory_limit = 0
    type(c_ptr) :: directory = c_null_ptr      ! a C string
    integer(c_int64_t) :: keep_bytes = 0
    integer(c_int) :: rounds = 0
    integer(c_int) :: no_direct_reads = 0
  end type

  type, bind(c) :: mv_statistics
    integer(c_int64_t) :: messages_sent, bytes_sent, bytes_read, bytes_copied, bytes_kept
    integer(c_int64_t) :: plans_made, redistributions, elements_examined
    real(c_double) :: planning_seconds
  end type

  type, bind(c) :: mv_fragment
    type(c_ptr) :: origin, extent, stride      ! integer(c_int64_t), as many as dimensions
    type(c_ptr) :: data
    integer(c_size_t) :: element_bytes
    integer(c_int) :: contiguous
  end type

  abstract interface
    integer(c_int) function mv_load_function(loader, argument) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: loader, argument
    end function
    integer(c_int) function mv_map_function(task, argument) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: task, argument
    end function
    subroutine mv_visit_function(at, bytes, size, argument) bind(c)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), intent(in) :: at(*)
      type(c_ptr), value :: bytes, argument
      integer(c_size_t), value :: size
    end subroutine
  end interface

  interface
    function c_message() result(text) bind(c, name="mv_message")
      import :: c_ptr
      type(c_ptr) :: text
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function
    integer(c_int) function c_world_create(comm, options, world) bind(c, name="mv_world_create_f")
      import :: c_int, c_ptr, mv_options
      integer(c_int), value :: comm
      type(mv_options), intent(in) :: options
      type(c_ptr), intent(out) :: world
    end function
    subroutine mv_world_free(world) bind(c)
      import :: c_ptr
      type(c_ptr), value :: world
    end subroutine
    integer(c_int) function mv_world_rank(world) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: world
    end function
    integer(c_int) function mv_world_size(world) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: world
    end function
    subroutine mv_world_statistics(world, values) bind(c)
      import :: c_ptr, mv_statistics
      type(c_ptr), value :: world
      type(mv_statistics), intent(out) :: values
    end subroutine
    integer(c_int) function mv_world_direct_reads(world) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: world
    end function
    subroutine mv_world_trim(world) bind(c)
      import :: c_ptr
      type(c_ptr), value :: world
    end subroutine

    integer(c_int) function mv_store_create(world, dimensions, shape, element_bytes, target, store) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: world
      integer(c_int), value :: dimensions, target
      integer(c_int64_t), intent(in) :: shape(*)
      integer(c_size_t), value :: element_bytes
      type(c_ptr), intent(out) :: store
    end function
    subroutine mv_store_free(store) bind(c)
      import :: c_ptr
      type(c_ptr), value :: store
    end subroutine
    integer(c_int) function mv_dimensions(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    subroutine mv_shape(store, shape) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: store
      integer(c_int64_t), intent(out) :: shape(*)
    end subroutine
    integer(c_int) function c_load_parallel(store, load, argument) bind(c, name="mv_load_parallel")
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: store, argument
      type(c_funptr), value :: load
    end function
    integer(c_int) function mv_set_split(store, cuts) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: store
      integer(c_int64_t), intent(in) :: cuts(*)
    end function
    integer(c_int) function mv_set_split_placed(store, cuts, placement) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: store
      integer(c_int64_t), intent(in) :: cuts(*)
      integer(c_int), value :: placement
    end function
    integer(c_int) function c_map(store, output, task, argument, view) bind(c, name="mv_map")
      import :: c_int, c_int64_t, c_ptr, c_funptr
      type(c_ptr), value :: store, output, argument
      type(c_funptr), value :: task
      integer(c_int64_t), intent(in) :: view(*)
    end function
    integer(c_int) function mv_redistribute(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    integer(c_size_t) function mv_failed_count(store) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: store
    end function
    integer(c_int) function c_failed(store, i, key, code, message) bind(c, name="mv_failed")
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: store
      integer(c_size_t), value :: i
      integer(c_int64_t), intent(out) :: key(*)
      integer(c_int), intent(out) :: code
      type(c_ptr), intent(out) :: message
    end function
    integer(c_int) function mv_put(store, at, bytes, size) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: store, bytes
      integer(c_int64_t), intent(in) :: at(*)
      integer(c_size_t), value :: size
    end function
    integer(c_int) function mv_get(store, at, bytes, room, size) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: store, bytes
      integer(c_int64_t), intent(in) :: at(*)
      integer(c_size_t), value :: room
      integer(c_size_t), intent(out) :: size
    end function
    integer(c_int) function mv_remove(store, at) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: store
      integer(c_int64_t), intent(in) :: at(*)
    end function
    integer(c_int) function mv_count(store, count) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: store
      integer(c_int64_t), intent(out) :: count
    end function
    integer(c_int) function c_for_each(store, visit, argument) bind(c, name="mv_for_each")
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: store, argument
      type(c_funptr), value :: visit
    end function
    subroutine mv_clear(store) bind(c)
      import :: c_ptr
      type(c_ptr), value :: store
    end subroutine
    integer(c_int) function mv_sync(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    integer(c_int) function mv_split_up(store, stores) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
      type(c_ptr), intent(out) :: stores(*)
    end function
    integer(c_int) function mv_join(stores, count, joined) bind(c)
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), intent(in) :: stores(*)
      integer(c_size_t), value :: count
      type(c_ptr), intent(out) :: joined
    end function
    integer(c_size_t) function mv_local_fragments(store) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: store
    end function
    subroutine mv_local_fragment(store, i, fragment) bind(c)
      import :: c_size_t, c_ptr, mv_fragment
      type(c_ptr), value :: store
      integer(c_size_t), value :: i
      type(mv_fragment), intent(out) :: fragment
    end subroutine

    integer(c_int) function mv_loader_put(loader, at, bytes, size) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: loader, bytes
      integer(c_int64_t), intent(in) :: at(*)
      integer(c_size_t), value :: size
    end function
    integer(c_int) function mv_loader_put_block(loader, origin, extent, elements) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: loader, elements
      integer(c_int64_t), intent(in) :: origin(*), extent(*)
    end function
    integer(c_int) function mv_loader_block(loader, fragments) bind(c)
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), value :: loader
      integer(c_size_t), intent(out) :: fragments
    end function
    subroutine mv_loader_fragment(loader, i, fragment) bind(c)
      import :: c_size_t, c_ptr, mv_fragment
      type(c_ptr), value :: loader
      integer(c_size_t), value :: i
      type(mv_fragment), intent(out) :: fragment
    end subroutine

    subroutine mv_task_key(task, key) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: task
      integer(c_int64_t), intent(out) :: key(*)
    end subroutine
    subroutine mv_task_split(task, cuts) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: task
      integer(c_int64_t), intent(out) :: cuts(*)
    end subroutine
    subroutine mv_task_view(task, cuts) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: task
      integer(c_int64_t), intent(out) :: cuts(*)
    end subroutine
    integer(c_int) function mv_task_comm(task) bind(c, name="mv_task_comm_f")
      import :: c_int, c_ptr
      type(c_ptr), value :: task
    end function
    integer(c_int64_t) function mv_task_elements(task) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: task
    end function
    integer(c_int) function mv_task_element(task, i, at, bytes, size) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: task
      integer(c_int64_t), value :: i
      integer(c_int64_t), intent(out) :: at(*)
      type(c_ptr), intent(out) :: bytes
      integer(c_size_t), intent(out) :: size
    end function
    integer(c_size_t) function mv_task_fragments(task) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: task
    end function
    subroutine mv_task_fragment(task, i, fragment) bind(c)
      import :: c_size_t, c_ptr, mv_fragment
      type(c_ptr), value :: task
      integer(c_size_t), value :: i
      type(mv_fragment), intent(out) :: fragment
    end subroutine
    integer(c_int) function mv_task_put(task, at, bytes, size) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: task, bytes
      integer(c_int64_t), intent(in) :: at(*)
      integer(c_size_t), value :: size
    end function
  end interface

contains

  function text_of(c_text) result(text)
    type(c_ptr), intent(in) :: c_text
    character(:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    integer :: i, n
    n = int(c_strlen(c_text))
    call c_f_pointer(c_text, chars, [n])
    allocate (character(n) :: text)
    do i = 1, n
      text(i:i) = chars(i)
    end do
  end function

  function mv_message() result(text)
    character(:), allocatable :: text
    text = text_of(c_message())
  end function

  ! `comm` as module mpi has it; of mpi_f08: comm%mpi_val.
  integer(c_int) function mv_world_create(comm, world, options) result(code)
    integer, intent(in) :: comm
    type(c_ptr), intent(out) :: world
    type(mv_options), intent(in), optional :: options
    type(mv_options) :: given
    if (present(options)) given = options
    code = c_world_create(int(comm, c_int), given, world)
  end function

  integer(c_int) function mv_load_parallel(store, load, argument) result(code)
    type(c_ptr), intent(in) :: store
    procedure(mv_load_function) :: load
    type(c_ptr), intent(in), optional :: argument
    type(c_ptr) :: given
    given = c_null_ptr
    if (present(argument)) given = argument
    code = c_load_parallel(store, c_funloc(load), given)
  end function

  ! `output`: a store, or c_null_ptr.
  integer(c_int) function mv_map(store, output, task, view, argument) result(code)
    type(c_ptr), intent(in) :: store, output
    procedure(mv_map_function) :: task
    integer(c_int64_t), intent(in) :: view(:)
    type(c_ptr), intent(in), optional :: argument
    type(c_ptr) :: given
    given = c_null_ptr
    if (present(argument)) given = argument
    code = c_map(store, output, c_funloc(task), given, view)
  end function

  integer(c_int) function mv_failed(store, i, key, failure, message) result(code)
    type(c_ptr), intent(in) :: store
    integer(c_size_t), intent(in) :: i
    integer(c_int64_t), intent(out) :: key(:)
    integer(c_int), intent(out) :: failure
    character(:), allocatable, intent(out) :: message
    type(c_ptr) :: c_text
    code = c_failed(store, i, key, failure, c_text)
    if (code == MV_OK) message = text_of(c_text)
  end function

  integer(c_int) function mv_for_each(store, visit, argument) result(code)
    type(c_ptr), intent(in) :: store
    procedure(mv_visit_function) :: visit
    type(c_ptr), intent(in), optional :: argument
    type(c_ptr) :: given
    given = c_null_ptr
    if (present(argument)) given = argument
    code = c_for_each(store, c_funloc(visit), given)
  end function

  ! The extents of a contiguous fragment as a Fortran array: in reverse.
  function mv_extents(fragment, dimensions) result(extents)
    type(mv_fragment), intent(in) :: fragment
    integer, intent(in) :: dimensions
    integer(c_int64_t) :: extents(dimensions)
    integer(c_int64_t), pointer :: given(:)
    call c_f_pointer(fragment%extent, given, [dimensions])
    extents = given(dimensions:1:-1)
  end function

  ! The place of its first element, in the order of C.
  function mv_origin(fragment, dimensions) result(origin)
    type(mv_fragment), intent(in) :: fragment
    integer, intent(in) :: dimensions
    integer(c_int64_t) :: origin(dimensions)
    integer(c_int64_t), pointer :: given(:)
    call c_f_pointer(fragment%origin, given, [dimensions])
    origin = given
  end function

end module
