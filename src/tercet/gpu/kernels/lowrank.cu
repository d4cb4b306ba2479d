// Margin rank loss on W = U'V + diag(w) (kernels/lowrank.py). A warp reads a word's factors, four to a lane. The warps
// of a block share the words of a text. Rows are `stride` floats apart, a multiple of 4; the floats between `width` and
// `stride` are and stay zero.
#include "common.cuh"

DEVICE float4 times(float x, float4 v) { return float4{x * v.x, x * v.y, x * v.z, x * v.w}; }

DEVICE void gain(float4* to, float x, float4 v) {
  to->x += x * v.x, to->y += x * v.y, to->z += x * v.z, to->w += x * v.w;
}

// Return the calling warp's share of x times the latent vector of a text, for the four components from c on.
DEVICE void add_latent(float4* latent, const float* factors, int stride, int c, const Rows& rows, long long lo,
                       long long hi, float x) {
#pragma unroll 4
  for (long long a = lo + WARP; a < hi; a += N_WARPS) {
    gain(latent, x * rows.data[a], load4(factors + (long long)stride * rows.indices[a] + c));
  }
}

// Add x * value * `change` to the factors of each word of a text; `change` has (stride) floats in shared memory.
DEVICE void add_to_words(float* factors, fixed_point* sums, const unsigned char* rare, int stride, const Rows& rows,
                         long long lo, long long hi, float x, const float* change, int phase) {
  for (long long a = lo + WARP; a < hi; a += N_WARPS) {
    const int word = rows.indices[a];
    if (rare && rare[word]) continue;
    const long long row = (long long)stride * word;
    const float y = x * rows.data[a];
    for (int c = 4 * LANE; c < stride; c += 4 * N_LANES) {
      const float4 step = times(y, *(const float4*)(change + c));
      if (phase == DIRECT) {
        add4(factors + row + c, step);
      } else {
        change_weight(factors, sums, row + c, step.x, phase);
        change_weight(factors, sums, row + c + 1, step.y, phase);
        change_weight(factors, sums, row + c + 2, step.z, phase);
        change_weight(factors, sums, row + c + 3, step.w, phase);
      }
    }
  }
}

// Sum the warps' shares of a latent vector, (n_warps, stride), into the first row.
DEVICE void sum_warps(float* parts, int stride) {
  for (int c = THREAD; c < stride; c += N_THREADS) {
    float total = 0;
    for (int warp = 0; warp < N_WARPS; ++warp) total += parts[(long long)warp * stride + c];
    parts[c] = total;
  }
}

// Rows V d of n texts, a block for each: `latent` (n, stride). Words of a text are added in their order, so that a row
// depends on its text and V alone. No races.
KERNEL latent_vectors(const float* V, int stride, const long long* d_indptr, const int* d_indices, const float* d_data,
                      long long n, float* latent) {
  for (long long s = BLOCK; s < n; s += N_BLOCKS) {
    for (int c = THREAD; c < stride; c += N_THREADS) {
      float sum = 0;
      for (long long a = d_indptr[s]; a < d_indptr[s + 1]; ++a) sum += d_data[a] * V[(long long)stride * d_indices[a] + c];
      latent[s * stride + c] = sum;
    }
  }
}

// One pass over n preferences, a block for each; changes U (n_query_terms, stride), V (n_doc_terms, stride), the same
// array when tied, and, when learned, `diagonal` (n_terms). Both gradients are taken at the old U and V. With `latent`
// (n_docs, stride), the rows V d, V is not changed. `rare_q`, `rare_d` mark words whose factors stay zero. Unused
// arrays are null. DIRECT and COLLECT write z to `scores` (n); COLLECT writes latent vectors to `kept` (n, 2, stride);
// APPLY reads both. `tally` (n_blocks, 2) gains violations and loss.
//
// Races: a block may read factors while another block changes them, and then sees a part of the other block's step.
// Changes are atomic; no change is lost.
KERNEL RESIDENT(128, 8)
lowrank_advance(float* U, float* V, float* diagonal, fixed_point* sums_u, fixed_point* sums_v,
                       fixed_point* sums_d, int stride, int learn_diagonal, const unsigned char* rare_q,
                       const unsigned char* rare_d,
                       const float* latent, float* kept, const long long* q_indptr, const int* q_indices,
                       const float* q_data, const long long* d_indptr, const int* d_indices, const float* d_data,
                       const int* query, const int* better, const int* worse, const float* step_size,
                       const float* margin, long long n, float* scores, double* tally, int phase) {
  float* uq = (float*)shared_memory;
  float* vd = uq + (long long)N_WARPS * stride;
  float* room = vd + (long long)N_WARPS * stride;
  const Rows Q = {q_indptr, q_indices, q_data}, D = {d_indptr, d_indices, d_data};
  for (long long s = BLOCK; s < n; s += N_BLOCKS) {
    const auto [q_lo, q_hi, b_lo, b_hi, w_lo, w_hi] = entries_of(Q, D, query[s], better[s], worse[s]);
    bool missed;
    if (phase == APPLY) {
      missed = !(scores[s] >= margin[s]);
      SYNC();
      if (missed) {
        for (int c = THREAD; c < stride; c += N_THREADS) {
          uq[c] = kept[2 * s * stride + c];
          vd[c] = kept[(2 * s + 1) * stride + c];
        }
      }
      SYNC();
    } else {
      SYNC();  // the previous step may still read its latent vectors
      for (int c = 4 * LANE; c < stride; c += 4 * N_LANES) {
        float4 u = {0, 0, 0, 0}, v = {0, 0, 0, 0};
        add_latent(&u, U, stride, c, Q, q_lo, q_hi, 1.0f);
        *(float4*)(uq + (long long)WARP * stride + c) = u;
        if (latent) {
          if (WARP == 0) {
            gain(&v, 1.0f, load4(latent + (long long)stride * better[s] + c));
            gain(&v, -1.0f, load4(latent + (long long)stride * worse[s] + c));
          }
        } else {
          add_latent(&v, V, stride, c, D, b_lo, b_hi, 1.0f);
          add_latent(&v, V, stride, c, D, w_lo, w_hi, -1.0f);
        }
        *(float4*)(vd + (long long)WARP * stride + c) = v;
      }
      SYNC();
      sum_warps(uq, stride);
      sum_warps(vd, stride);
      float part = 0;
      for (int c = THREAD; c < stride; c += N_THREADS) part += uq[c] * vd[c];
      if (diagonal) {
        part += diagonal_score(diagonal, Q, q_lo, q_hi, D, b_lo, b_hi) -
                diagonal_score(diagonal, Q, q_lo, q_hi, D, w_lo, w_hi);
      }
      const float z = block_sum(part, room);
      if (THREAD == 0) scores[s] = z;
      missed = violates(z, margin[s], tally + 2 * BLOCK);
      if (phase == COLLECT && missed) {
        for (int c = THREAD; c < stride; c += N_THREADS) {
          kept[2 * s * stride + c] = uq[c];
          kept[(2 * s + 1) * stride + c] = vd[c];
        }
      }
    }
    if (!missed) continue;
    const float e = step_size[s];
    add_to_words(U, sums_u, rare_q, stride, Q, q_lo, q_hi, e, vd, phase);
    if (!latent) {
      add_to_words(V, sums_v, rare_d, stride, D, b_lo, b_hi, e, uq, phase);
      add_to_words(V, sums_v, rare_d, stride, D, w_lo, w_hi, -e, uq, phase);
    }
    if (learn_diagonal) {
      diagonal_step(diagonal, sums_d, Q, q_lo, q_hi, D, b_lo, b_hi, e, phase);
      diagonal_step(diagonal, sums_d, Q, q_lo, q_hi, D, w_lo, w_hi, -e, phase);
    }
  }
}

// Return the length of a vector from sum_warps to every thread, and scale the vector to length 1.
DEVICE float make_unit(float* vector, int stride, float* room) {
  float squares = 0;
  for (int c = THREAD; c < stride; c += N_THREADS) squares += vector[c] * vector[c];
  const float length = sqrtf(block_sum(squares, room));
  if (length > 0) {
    for (int c = THREAD; c < stride; c += N_THREADS) vector[c] /= length;
  }
  return length;
}

// The same on cosines of latent vectors: cos(U q, V d+) - cos(U q, V d-) must reach the margin. A step follows the
// exact gradient at the old U and V. A text without a latent vector has cosines of 0, and its factors do not change.
// COLLECT writes the gradients to `kept` (n, 3, stride); APPLY reads the gradients. Races as in `lowrank_advance`.
KERNEL cosine_advance(float* U, float* V, fixed_point* sums_u, fixed_point* sums_v, int stride,
                      const unsigned char* rare_q, const unsigned char* rare_d, float* kept, const long long* q_indptr,
                      const int* q_indices, const float* q_data, const long long* d_indptr, const int* d_indices,
                      const float* d_data, const int* query, const int* better, const int* worse,
                      const float* step_size, const float* margin, long long n, float* scores, double* tally,
                      int phase) {
  const long long size = (long long)N_WARPS * stride;
  float* u = (float*)shared_memory;
  float* b = u + size;
  float* w = b + size;
  float* room = w + size;
  const Rows Q = {q_indptr, q_indices, q_data}, D = {d_indptr, d_indices, d_data};
  for (long long s = BLOCK; s < n; s += N_BLOCKS) {
    const auto [q_lo, q_hi, b_lo, b_hi, w_lo, w_hi] = entries_of(Q, D, query[s], better[s], worse[s]);
    bool missed;
    SYNC();  // the previous step may still read its gradients
    if (phase == APPLY) {
      missed = !(scores[s] >= margin[s]);
      if (missed) {
        for (int c = THREAD; c < stride; c += N_THREADS) {
          u[c] = kept[3 * s * stride + c];
          b[c] = kept[(3 * s + 1) * stride + c];
          w[c] = kept[(3 * s + 2) * stride + c];
        }
      }
      SYNC();
    } else {
      for (int c = 4 * LANE; c < stride; c += 4 * N_LANES) {
        float4 of_query = {0, 0, 0, 0}, of_better = {0, 0, 0, 0}, of_worse = {0, 0, 0, 0};
        add_latent(&of_query, U, stride, c, Q, q_lo, q_hi, 1.0f);
        add_latent(&of_better, V, stride, c, D, b_lo, b_hi, 1.0f);
        add_latent(&of_worse, V, stride, c, D, w_lo, w_hi, 1.0f);
        *(float4*)(u + (long long)WARP * stride + c) = of_query;
        *(float4*)(b + (long long)WARP * stride + c) = of_better;
        *(float4*)(w + (long long)WARP * stride + c) = of_worse;
      }
      SYNC();
      sum_warps(u, stride);
      sum_warps(b, stride);
      sum_warps(w, stride);
      const float q_length = make_unit(u, stride, room);
      const float b_length = make_unit(b, stride, room);
      const float w_length = make_unit(w, stride, room);
      float to_better = 0, to_worse = 0;
      for (int c = THREAD; c < stride; c += N_THREADS) {
        to_better += u[c] * b[c];
        to_worse += u[c] * w[c];
      }
      const float cos_b = block_sum(to_better, room), cos_w = block_sum(to_worse, room);
      if (THREAD == 0) scores[s] = cos_b - cos_w;
      missed = violates(cos_b - cos_w, margin[s], tally + 2 * BLOCK);
      if (missed) {  // the gradients overwrite the vectors
        const float e = step_size[s];
        const float e_q = q_length > 0 ? e / q_length : 0.0f;
        const float e_b = b_length > 0 && q_length > 0 ? e / b_length : 0.0f;
        const float e_w = w_length > 0 && q_length > 0 ? e / w_length : 0.0f;
        for (int c = THREAD; c < stride; c += N_THREADS) {
          const float x = u[c], y = b[c], v = w[c];
          u[c] = e_q * (y - v - (cos_b - cos_w) * x);
          b[c] = e_b * (x - cos_b * y);
          w[c] = e_w * (cos_w * v - x);
          if (phase == COLLECT) {
            kept[3 * s * stride + c] = u[c];
            kept[(3 * s + 1) * stride + c] = b[c];
            kept[(3 * s + 2) * stride + c] = w[c];
          }
        }
      }
      SYNC();
    }
    if (!missed) continue;
    add_to_words(U, sums_u, rare_q, stride, Q, q_lo, q_hi, 1.0f, u, phase);
    add_to_words(V, sums_v, rare_d, stride, D, b_lo, b_hi, 1.0f, b, phase);
    add_to_words(V, sums_v, rare_d, stride, D, w_lo, w_hi, 1.0f, w, phase);
  }
}
