// Expanded queries q'W under a sparse W.
#include "common.cuh"

// One pass over n queries, a block for each; adds `scale` times q'W to the query's row of `expanded` (n, width). A
// block processes the words of its query in order, and the columns of a row of W differ. No two threads add to the same
// entry at once: there are no races, and the bits are the same every time.
KERNEL expand_queries(const long long* q_indptr, const int* q_indices, const double* q_data, const long long* w_indptr,
                      const int* w_indices, const double* w_data, double scale, long long n, long long width,
                      double* expanded) {
  for (long long s = BLOCK; s < n; s += N_BLOCKS) {
    double* row = expanded + s * width;
    for (long long a = q_indptr[s]; a < q_indptr[s + 1]; ++a) {
      const double q = scale * q_data[a];
      const long long hi = w_indptr[q_indices[a] + 1];
      for (long long j = w_indptr[q_indices[a]] + THREAD; j < hi; j += N_THREADS) row[w_indices[j]] += q * w_data[j];
      SYNC();
    }
  }
}
