#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <harrow/multiview.hpp>

namespace mv = harrow::multiview;

// Programs of this folder run under mpirun; every process runs every test. A test that needs fewer processes makes a
// communicator of the first ones, and the others skip it; with fewer in all it fails.
class Processes {
 public:
  explicit Processes(int wanted) {
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT_LE(wanted, size) << "too few processes for this test";
    MPI_Comm_split(MPI_COMM_WORLD, rank < wanted && wanted <= size ? 0 : MPI_UNDEFINED, rank, &comm_);
  }
  ~Processes() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  explicit operator bool() const { return comm_ != MPI_COMM_NULL; }
  operator MPI_Comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// For a status that must be ok: its message if it is not.
#define EXPECT_OK(expr)                                \
  do {                                                 \
    const mv::Status status_ = (expr);                 \
    EXPECT_TRUE(status_.ok()) << status_.message();    \
  } while (false)
