! The lattice of dirac.hpp in Fortran: the same sources, operator and checksum, so that both languages print the same number.
! Arrays have their sites as (t, z, y, x): the order of C's memory with the indices reversed.
module dirac
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none

  integer, parameter :: colours = 3
  real(c_double), parameter :: mass = 0.3_c_double

  type part_type
    integer(c_int64_t) :: lattice(4), origin(4), extent(4), grid(4)   ! x, y, z, t
    integer :: comm
  end type

contains

  ! As lattice::Random: unsigned arithmetic modulo 2**64.
  real(c_double) function random_of(numbers) result(r)
    integer(c_int64_t), intent(in) :: numbers(5)
    integer(c_int64_t) :: h
    integer :: i
    h = 1
    do i = 1, 5
      h = multiply(ieor(h, numbers(i)), 6364136223846793005_c_int64_t)
      h = add(h, 1442695040888963407_c_int64_t)
      h = ieor(h, shiftr(h, 29))
    end do
    r = real(shiftr(h, 11), c_double) / 9007199254740992.0_c_double
  end function

  ! Signed overflow is not Fortran's: the product and the sum are put together from halves.
  pure integer(c_int64_t) function add(a, b) result(c)
    integer(c_int64_t), intent(in) :: a, b
    integer(c_int64_t) :: low, high
    low = iand(a, 4294967295_c_int64_t) + iand(b, 4294967295_c_int64_t)
    high = shiftr(a, 32) + shiftr(b, 32) + shiftr(low, 32)
    c = ior(shiftl(high, 32), iand(low, 4294967295_c_int64_t))
  end function

  pure integer(c_int64_t) function multiply(a, b) result(c)
    integer(c_int64_t), intent(in) :: a, b
    integer(c_int64_t) :: a_part, b_part
    integer :: i, j
    c = 0
    do i = 0, 3
      a_part = iand(shiftr(a, 16 * i), 65535_c_int64_t)
      do j = 0, 3 - i
        b_part = iand(shiftr(b, 16 * j), 65535_c_int64_t)
        c = add(c, shiftl(a_part * b_part, 16 * (i + j)))
      end do
    end do
  end function

  complex(c_double_complex) function phase(mu, site)
    integer, intent(in) :: mu
    integer(c_int64_t), intent(in) :: site(4)
    real(c_double) :: angle
    angle = 0.6_c_double * random_of([int(100 + mu, c_int64_t), site])
    phase = cmplx(cos(angle), sin(angle), c_double_complex)
  end function

  complex(c_double_complex) function source(member, site, c)
    integer(c_int64_t), intent(in) :: member, site(4)
    integer, intent(in) :: c                                          ! from 0
    source = cmplx(random_of([10 * member + c, site]) - 0.5_c_double, &
                   random_of([10 * member + c + 5, site]) - 0.5_c_double, c_double_complex)
  end function

  real(c_double) function checksum(member, site, v)
    integer(c_int64_t), intent(in) :: member, site(4)
    complex(c_double_complex), intent(in) :: v(colours)
    integer :: c
    checksum = 0
    do c = 1, colours
      checksum = checksum + real(v(c)) * random_of([member, site]) + aimag(v(c)) * c
    end do
  end function

  ! Replaces the right-hand side in x by the solution; returns the relative residual.
  real(c_double) function solve(part, x) result(residual)
    type(part_type), intent(in) :: part
    complex(c_double_complex), intent(inout) :: x(:, :, :, :, :)      ! colour, t, z, y, x
    complex(c_double_complex), allocatable :: r(:, :, :, :, :), p(:, :, :, :, :), q(:, :, :, :, :), u(:, :, :, :, :)
    real(c_double) :: start, rr, next, alpha
    integer :: i
    allocate (r, p, q, source=x)
    u = phases(part)
    x = 0
    start = dot(r, r)
    rr = start
    do i = 1, 200
      if (rr <= 1e-20_c_double * start) exit
      call apply(part, u, p, q)
      alpha = rr / dot(p, q)
      x = x + alpha * p
      r = r - alpha * q
      next = dot(r, r)
      p = r + next / rr * p
      rr = next
    end do
    residual = sqrt(rr / start)
  contains
    real(c_double) function dot(a, b)
      complex(c_double_complex), intent(in) :: a(:, :, :, :, :), b(:, :, :, :, :)
      real(c_double) :: mine
      integer :: error
      mine = real(sum(conjg(a) * b), c_double)
      call MPI_Allreduce(mine, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, part%comm, error)
    end function
  end function

  ! Of each site, forward and backward phase of the four directions: (8, t, z, y, x).
  function phases(part) result(u)
    type(part_type), intent(in) :: part
    complex(c_double_complex), allocatable :: u(:, :, :, :, :)
    integer(c_int64_t) :: site(4), before(4)
    integer(c_int64_t) :: i, j, k, l
    integer :: mu
    allocate (u(8, part%extent(4), part%extent(3), part%extent(2), part%extent(1)))
    do i = 1, part%extent(1)
      do j = 1, part%extent(2)
        do k = 1, part%extent(3)
          do l = 1, part%extent(4)
            site = part%origin + [i, j, k, l] - 1
            do mu = 1, 4
              before = site
              before(mu) = modulo(site(mu) - 1, part%lattice(mu))
              u(2 * mu - 1, l, k, j, i) = phase(mu - 1, site)
              u(2 * mu, l, k, j, i) = conjg(phase(mu - 1, before))
            end do
          end do
        end do
      end do
    end do
  end function

  subroutine apply(part, u, x, y)
    type(part_type), intent(in) :: part
    complex(c_double_complex), intent(in) :: u(:, :, :, :, :), x(:, :, :, :, :)
    complex(c_double_complex), intent(out) :: y(:, :, :, :, :)
    complex(c_double_complex), allocatable :: next(:, :, :, :, :), last(:, :, :, :, :)
    integer :: mu, c
    y = (mass + 4) * x
    do mu = 1, 4
      next = shifted(part, x, mu, 1)
      last = shifted(part, x, mu, -1)
      do c = 1, colours
        y(c, :, :, :, :) = y(c, :, :, :, :) - 0.5_c_double * (u(2 * mu - 1, :, :, :, :) * next(c, :, :, :, :) &
                                                             + u(2 * mu, :, :, :, :) * last(c, :, :, :, :))
      end do
    end do
  end subroutine

  ! x at the neighbours in direction mu; their faces come from the neighbour processes.
  function shifted(part, x, mu, direction) result(s)
    type(part_type), intent(in) :: part
    complex(c_double_complex), intent(in) :: x(:, :, :, :, :)
    integer, intent(in) :: mu, direction
    complex(c_double_complex), allocatable :: s(:, :, :, :, :), out(:, :, :, :), in(:, :, :, :)
    integer :: dimension, n, give, take, error, status(MPI_STATUS_SIZE)
    dimension = 6 - mu                                                ! of the array: colour is 1, t is 2, x is 5
    n = size(x, dimension)
    s = cshift(x, direction, dimension)
    give = merge(1, n, direction > 0)
    take = merge(n, 1, direction > 0)
    out = face(x, give)
    allocate (in, mold=out)
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_COMPLEX, neighbour(-direction), mu, in, size(in), MPI_DOUBLE_COMPLEX, &
                      neighbour(direction), mu, part%comm, status, error)
    select case (mu)
    case (1); s(:, :, :, :, take) = in
    case (2); s(:, :, :, take, :) = in
    case (3); s(:, :, take, :, :) = in
    case (4); s(:, take, :, :, :) = in
    end select
  contains
    function face(a, at) result(f)
      complex(c_double_complex), intent(in) :: a(:, :, :, :, :)
      integer, intent(in) :: at
      complex(c_double_complex), allocatable :: f(:, :, :, :)
      select case (mu)
      case (1); f = a(:, :, :, :, at)
      case (2); f = a(:, :, :, at, :)
      case (3); f = a(:, :, at, :, :)
      case (4); f = a(:, at, :, :, :)
      end select
    end function
    integer function neighbour(step)
      integer, intent(in) :: step
      integer :: rank, stride, at
      call MPI_Comm_rank(part%comm, rank, error)
      stride = int(product(part%grid(mu + 1:4)))
      at = mod(rank / stride, int(part%grid(mu)))
      neighbour = rank + (modulo(at + step, int(part%grid(mu))) - at) * stride
    end function
  end function

end module
