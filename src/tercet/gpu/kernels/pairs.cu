// Margin rank loss on a W with a weight for every pair of words: dense, shrunk by L1, or on a given support
// (kernels/dense.py, sparse.py, support.py).
#include "common.cuh"

// PLAIN: W has weights. LEVELS: an entry is sign(w) (|w| + cum), with cum the shrinkage handed out so far.
// SUPPORT: weights, and NaN outside the support.
enum { PLAIN = 0, LEVELS = 1, SUPPORT = 2 };

#define TILE 1024  // words of two documents processed together

DEVICE float soft(float level, float cum) { return fmaxf(level - cum, 0.0f) + fminf(level + cum, 0.0f); }

DEVICE float weight_of(float entry, float cum, int form) {
  if (form == LEVELS) return soft(entry, cum);
  return form == PLAIN || entry == entry ? entry : 0.0f;
}

// Load the words of d+ - d- from `first` on: words of the better document, then words of the worse document. A word of
// both documents counts with the better document and has the value 0 with the worse one; a word that cancels has 0.
DEVICE int load_difference(const Rows& D, long long b_lo, long long b_hi, long long w_lo, long long w_hi,
                           long long first, int* cols, float* vals) {
  const long long n_better = b_hi - b_lo, left = n_better + (w_hi - w_lo) - first;
  const int n = left < TILE ? (int)left : TILE;
  SYNC();
  for (int j = THREAD; j < n; j += N_THREADS) {
    const long long k = first + j;
    if (k < n_better) {
      cols[j] = D.indices[b_lo + k];
      vals[j] = D.data[b_lo + k] - value_at(D, w_lo, w_hi, cols[j]);
    } else {
      cols[j] = D.indices[w_lo + k - n_better];
      vals[j] = place_of(D, b_lo, b_hi, cols[j]) >= 0 ? 0.0f : -D.data[w_lo + k - n_better];
    }
  }
  SYNC();
  return n;
}

// One pass over n preferences, a block for each; changes W (n_query_terms, stride), whose columns are those of D. A
// warp takes a word of the query, its lanes the words of the documents. `own` has each query word's own column if those
// weights are held at zero. `cum` (n) has the shrinkage handed out before each step. `taken` counts the steps that
// blocks have begun. DIRECT and COLLECT write z to `scores` (n); APPLY reads z. `tally` (n_blocks, 2) gains violations
// and loss.
//
// Races: a block may read an entry while another block changes the entry, and may read a level written at the cum of a
// neighboring step. The error is the effect of one preference among many. Changes are atomic; no change is lost.
KERNEL pairs_advance(float* W, fixed_point* sums, long long stride, int form, const int* own, const float* cum,
                     long long* taken, const long long* q_indptr, const int* q_indices,
                     const float* q_data, const long long* d_indptr, const int* d_indices, const float* d_data,
                     const int* query, const int* better, const int* worse, const float* step_size,
                     const float* margin, long long n, float* scores, double* tally, int phase) {
  int* cols = (int*)shared_memory;
  float* vals = (float*)(cols + TILE);
  float* room = vals + TILE;
  const Rows Q = {q_indptr, q_indices, q_data}, D = {d_indptr, d_indices, d_data};
  for (long long s = phase == DIRECT ? next_step(taken) : BLOCK; s < n;
       s = phase == DIRECT ? next_step(taken) : s + N_BLOCKS) {
    const auto [q_lo, q_hi, b_lo, b_hi, w_lo, w_hi] = entries_of(Q, D, query[s], better[s], worse[s]);
    const long long n_words = (b_hi - b_lo) + (w_hi - w_lo);
    const float shrunk = form == LEVELS ? cum[phase == APPLY ? n - 1 : s] : 0.0f;
    int m = 0;
    bool missed;
    if (phase == APPLY) {
      missed = !(scores[s] >= margin[s]);
    } else {
      float part = 0;
      for (long long first = 0; first < n_words; first += TILE) {
        m = load_difference(D, b_lo, b_hi, w_lo, w_hi, first, cols, vals);
        for (long long a = q_lo + WARP; a < q_hi; a += N_WARPS) {
          const float* row = W + stride * q_indices[a];
          float z = 0;
#pragma unroll 4
          for (int j = LANE; j < m; j += N_LANES) z += weight_of(load(row + cols[j]), shrunk, form) * vals[j];
          part += z * q_data[a];
        }
      }
      const float z = block_sum(part, room);
      if (THREAD == 0) scores[s] = z;
      missed = violates(z, margin[s], tally + 2 * BLOCK);
    }
    if (!missed) continue;
    const float e = step_size[s];
    for (long long first = 0; first < n_words; first += TILE) {
      if (phase == APPLY || n_words > TILE) m = load_difference(D, b_lo, b_hi, w_lo, w_hi, first, cols, vals);
      for (long long a = q_lo + WARP; a < q_hi; a += N_WARPS) {
        const int word = q_indices[a];
        const long long row = stride * word;
        const float x = e * q_data[a];
        for (int j = LANE; j < m; j += N_LANES) {
          if (vals[j] == 0 || (own && cols[j] == own[word])) continue;
          const long long at = row + cols[j];
          const float change = x * vals[j];
          if (form == PLAIN || phase == COLLECT) {
            change_weight(W, sums, at, change, phase);
            continue;
          }
          float sum = change;
          if (phase == APPLY) {
            const fixed_point collected = take(sums + at);
            if (!collected) continue;
            sum = from_fixed(collected);
          }
          float entry = load(W + at);
          while (entry == entry) {  // retry until no other block changes the entry meanwhile; NaN stays
            const float weight = weight_of(entry, shrunk, form) + sum;
            const float found = swap_if(W + at, entry, form == SUPPORT ? weight : weight + copysignf(shrunk, weight));
            if (same_bits(found, entry)) break;
            entry = found;
          }
        }
      }
    }
    SYNC();
  }
}
