/* Allreduce and alltoall whose results are known: what every rank must find is computed from its
 * number. Run by mpirun; exit status 0 and one line of rank 0 if all was right.
 *
 *   mpicc -O2 -o mpi_collectives mpi_collectives.c
 *   mpirun -np 8 --mca pml ucx ./mpi_collectives
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWords = 20000 }; /* 80 kB to each rank: beyond what is sent eagerly */

static void fail(int rank, const char* what, int at, long found, long expected) {
  fprintf(stderr, "rank %d: %s[%d] is %ld, not %ld\n", rank, what, at, found, expected);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_allreduce(int rank, int size) {
  long* own = calloc(kWords, sizeof *own);
  long* sum = calloc(kWords, sizeof *sum);
  for (int i = 0; i < kWords; ++i) own[i] = (long)(rank + 1) * i;
  MPI_Allreduce(own, sum, kWords, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  const long ranks = (long)size * (size + 1) / 2;
  for (int i = 0; i < kWords; ++i) {
    if (sum[i] != ranks * i) fail(rank, "sum", i, sum[i], ranks * i);
  }
  free(own);
  free(sum);
}

static void check_alltoall(int rank, int size) {
  const size_t words = (size_t)size * kWords;
  int* out = calloc(words, sizeof *out);
  int* in = calloc(words, sizeof *in);
  for (int to = 0; to < size; ++to) {
    for (int i = 0; i < kWords; ++i) out[to * kWords + i] = rank * 1000003 + to * 1009 + i;
  }
  MPI_Alltoall(out, kWords, MPI_INT, in, kWords, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < size; ++from) {
    for (int i = 0; i < kWords; ++i) {
      const int expected = from * 1000003 + rank * 1009 + i;
      if (in[from * kWords + i] != expected) {
        fail(rank, "word", from * kWords + i, in[from * kWords + i], expected);
      }
    }
  }
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  int rank = 0;
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 3; ++round) {
    check_allreduce(rank, size);
    check_alltoall(rank, size);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks agree\n", size);
  MPI_Finalize();
  return 0;
}
