#include <gtest/gtest.h>
#include <mpi.h>

// Every process prints its failures, process 0 everything; the exit status is that of the worst.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
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
