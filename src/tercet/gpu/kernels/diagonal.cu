// Margin rank loss on a diagonal W: a learned weight for each word (kernels/diagonal.py).
#include "common.cuh"

// One pass over n preferences, a block for each; changes `weights` (n_terms). DIRECT and COLLECT write
// z = w·(q (d+ - d-)) to `scores` (n); APPLY reads z. `tally` (n_blocks, 2) gains violations and loss.
//
// Races: a block may read a weight while another block changes the weight. Changes are atomic; no change is lost.
KERNEL diagonal_advance(float* weights, fixed_point* sums, const long long* q_indptr, const int* q_indices,
                        const float* q_data, const long long* d_indptr, const int* d_indices, const float* d_data,
                        const int* query, const int* better, const int* worse, const float* step_size,
                        const float* margin, long long n, float* scores, double* tally, int phase) {
  float* room = (float*)shared_memory;
  const Rows Q = {q_indptr, q_indices, q_data}, D = {d_indptr, d_indices, d_data};
  for (long long s = BLOCK; s < n; s += N_BLOCKS) {
    const auto [q_lo, q_hi, b_lo, b_hi, w_lo, w_hi] = entries_of(Q, D, query[s], better[s], worse[s]);
    bool missed;
    if (phase == APPLY) {
      missed = !(scores[s] >= margin[s]);
    } else {
      const float part = diagonal_score(weights, Q, q_lo, q_hi, D, b_lo, b_hi) -
                         diagonal_score(weights, Q, q_lo, q_hi, D, w_lo, w_hi);
      const float z = block_sum(part, room);
      if (THREAD == 0) scores[s] = z;
      missed = violates(z, margin[s], tally + 2 * BLOCK);
    }
    if (missed) {
      const float e = step_size[s];
      diagonal_step(weights, sums, Q, q_lo, q_hi, D, b_lo, b_hi, e, phase);
      diagonal_step(weights, sums, Q, q_lo, q_hi, D, w_lo, w_hi, -e, phase);
    }
  }
}
