#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

// Every process prints its failures, process 0 everything; the exit status is that of the worst.
//
// mpirun -n N multiview_mpi_test --processes N [GoogleTest's options]: with any other number of processes (one each, where mpirun is
// another MPI's) most tests would find too few and have nothing to do.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int wanted = argc == 3 && std::string(argv[1]) == "--processes" ? std::atoi(argv[2]) : 0;
  if (size != wanted || size < 12) {
    std::fprintf(stderr, "multiview_mpi_test: %d processes; --processes N says how many there are to be, at least 12\n", size);
    MPI_Finalize();
    return 2;
  }
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    struct FailuresOnly : testing::EmptyTestEventListener {
      int rank;
      explicit FailuresOnly(int r) : rank(r) {}
      void OnTestPartResult(const testing::TestPartResult& r) override {
        if (r.failed()) std::fprintf(stderr, "process %d: %s:%d: %s\n", rank, r.file_name(), r.line_number(), r.message());
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(rank));
  }
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
