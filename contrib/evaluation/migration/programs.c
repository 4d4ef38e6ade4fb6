/* Processes of a job, as the study looks at them: each computes, and stops itself at the point where its image is taken.
   usage: programs scene|lu|ensemble MEGABYTES NUMBER. cc -O2 programs.c -lm

   scene     a ray tracer: the same triangles in each process, and an image of its own of a tenth of their size
   lu        an LU factorization: a matrix of its own in each process, and buffers that are alike
   ensemble  the same table of observations in each process, and a state of its own of a fifth of its size */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long state;
static double draw(void) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(state >> 11) / 9007199254740992.0;
}

static double* filled(size_t bytes, unsigned long long seed) {
  double* data = malloc(bytes);
  state = seed;
  for (size_t i = 0; i < bytes / sizeof *data; ++i) data[i] = draw();
  return data;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  size_t bytes = (size_t)atol(argv[2]) << 20;
  unsigned long long number = (unsigned long long)atoll(argv[3]) + 1;
  double sum = 0;
  if (strcmp(argv[1], "lu") == 0) {
    size_t n = (size_t)sqrt((double)(bytes * 8 / 10) / sizeof(double));
    double* a = filled(n * n * sizeof *a, number);
    double* alike = filled(bytes / 5, 1);
    for (size_t i = 0; i < n; ++i) a[i * n + i] += (double)n;
    for (size_t k = 0; k < n && k < 64; ++k) /* as far as that: no number of it is what it was */
      for (size_t i = k + 1; i < n; ++i) {
        double f = a[i * n + k] /= a[k * n + k];
        for (size_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
      }
    sum = a[n * n - 1] + alike[0];
  } else {
    int scene = strcmp(argv[1], "scene") == 0;
    size_t own = bytes / (scene ? 11 : 6), common = bytes - own;
    double* shared = filled(common, 1);
    double* mine = malloc(own);
    state = number;
    for (size_t i = 0; i < own / sizeof *mine; ++i) {
      double value = 0;
      for (int ray = 0; ray < 8; ++ray) value += shared[(size_t)(draw() * (double)(common / sizeof *shared))];
      mine[i] = value;
    }
    sum = mine[0];
  }
  printf("%g\n", sum);
  fflush(stdout);
  raise(SIGSTOP);
  return 0;
}
