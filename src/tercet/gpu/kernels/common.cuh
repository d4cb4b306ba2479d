// Functions shared by all kernels: thread indices, sums over a block, sparse rows, and the three ways to add a change.
//
// The source compiles as CUDA C++ and as plain C++. On the host, a launch is one block of one thread, for tests against
// the kernels of the CPU on a machine without a GPU.

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
// Bound the registers so that this many blocks of this many threads fit on a processor: all blocks run concurrently.
#define RESIDENT(n_threads, n_blocks) __launch_bounds__(n_threads, n_blocks)
#define DEVICE static __device__ __forceinline__
#define THREAD ((int)threadIdx.x)
#define N_THREADS ((int)blockDim.x)
#define BLOCK ((long long)blockIdx.x)
#define N_BLOCKS ((long long)gridDim.x)
#define N_LANES 32
#define SYNC() __syncthreads()
extern __shared__ float4 shared_memory[];
#else
#include <cmath>
#include <cstring>
#include <vector>
struct alignas(16) float4 {
  float x, y, z, w;
};
#define KERNEL extern "C" void
#define RESIDENT(n_threads, n_blocks)
#define DEVICE static inline
#define THREAD 0
#define N_THREADS 1
#define BLOCK 0LL
#define N_BLOCKS 1LL
#define N_LANES 1
#define SYNC()
static std::vector<float4> host_shared;
static float4* shared_memory = nullptr;
extern "C" void reserve_shared(long long bytes) {
  host_shared.assign(bytes / sizeof(float4) + 1, float4{});
  shared_memory = host_shared.data();
}
#endif

#define LANE (THREAD % N_LANES)
#define WARP (THREAD / N_LANES)
#define N_WARPS (N_THREADS / N_LANES)

// Phases of a step. DIRECT: blocks read the weights and add changes concurrently. A block may read a weight that
// another block is changing. Steps are small and most words of two texts differ, so the block takes nearly the same
// step from slightly older weights. COLLECT and APPLY are two launches that give the same bits every time. In COLLECT
// all blocks read the same weights and add changes to integer sums; integer sums do not depend on the order. In APPLY
// each sum is taken once and added to its weight.
enum { DIRECT = 0, COLLECT = 1, APPLY = 2 };

typedef unsigned long long fixed_point;
#define FIXED_ONE 68719476736.0  // 2^36: changes from 1.5e-11 to 1.3e8

struct Rows {
  const long long* indptr;
  const int* indices;
  const float* data;
};

// Ranges of the entries of a query, a better document and a worse document.
struct Entries {
  long long q_lo, q_hi, b_lo, b_hi, w_lo, w_hi;
};

DEVICE Entries entries_of(const Rows& Q, const Rows& D, int query, int better, int worse) {
  return {Q.indptr[query],  Q.indptr[query + 1], D.indptr[better],
          D.indptr[better + 1], D.indptr[worse], D.indptr[worse + 1]};
}

DEVICE fixed_point to_fixed(float change) { return (fixed_point)(long long)llrint((double)change * FIXED_ONE); }
DEVICE float from_fixed(fixed_point sum) { return (float)((double)(long long)sum / FIXED_ONE); }

#ifdef __CUDACC__
DEVICE float load(const float* from) { return __ldcg(from); }  // bypass L1: L1 does not see writes of other blocks
DEVICE float4 load4(const float* from) { return __ldcg((const float4*)from); }
DEVICE void add(float* to, float change) { atomicAdd(to, change); }
DEVICE void add4(float* to, float4 change) {
#if __CUDA_ARCH__ >= 900
  atomicAdd((float4*)to, change);  // one reduction in L2; nothing comes back
#else
  atomicAdd(to, change.x), atomicAdd(to + 1, change.y), atomicAdd(to + 2, change.z), atomicAdd(to + 3, change.w);
#endif
}
// Store a number if the old value equals `expected` bit for bit; return the old value.
DEVICE float swap_if(float* at, float expected, float number) {
  return __int_as_float(atomicCAS((int*)at, __float_as_int(expected), __float_as_int(number)));
}
DEVICE bool same_bits(float one, float other) { return __float_as_int(one) == __float_as_int(other); }
DEVICE void collect(fixed_point* to, float change) { atomicAdd(to, to_fixed(change)); }
DEVICE fixed_point take(fixed_point* from) { return atomicExch(from, 0ULL); }
#else
DEVICE float load(const float* from) { return *from; }
DEVICE float4 load4(const float* from) { return *(const float4*)from; }
DEVICE void add(float* to, float change) { *to += change; }
DEVICE void add4(float* to, float4 change) {
  to[0] += change.x, to[1] += change.y, to[2] += change.z, to[3] += change.w;
}
DEVICE bool same_bits(float one, float other) { return std::memcmp(&one, &other, sizeof(float)) == 0; }
DEVICE float swap_if(float* at, float expected, float number) {
  const float found = *at;
  if (same_bits(found, expected)) *at = number;
  return found;
}
DEVICE void collect(fixed_point* to, float change) { *to += to_fixed(change); }
DEVICE fixed_point take(fixed_point* from) {
  fixed_point sum = *from;
  *from = 0;
  return sum;
}
#endif

// Add a change to a weight (DIRECT), add the change to the sum of changes (COLLECT), or move the sum to the weight
// (APPLY).
DEVICE void change_weight(float* weights, fixed_point* sums, long long at, float change, int phase) {
  if (phase == DIRECT) {
    add(weights + at, change);
  } else if (phase == COLLECT) {
    collect(sums + at, change);
  } else {
    const fixed_point sum = take(sums + at);
    if (sum) weights[at] += from_fixed(sum);
  }
}

// Return the next step that no block has taken. With a fixed stride, blocks with long texts would fall thousands of
// steps behind; with a counter, concurrent steps are neighbors.
DEVICE long long next_step(long long* taken) {
#ifdef __CUDACC__
  __shared__ long long mine;
  if (THREAD == 0) mine = (long long)atomicAdd((unsigned long long*)taken, 1ULL);
  SYNC();
  const long long step = mine;
  SYNC();
  return step;
#else
  return (*taken)++;
#endif
}

// Return the sum over all threads of the block, in a fixed order, to every thread.
DEVICE float block_sum(float value, float* room) {  // (n_warps,) shared memory
#ifdef __CUDACC__
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  SYNC();  // an earlier sum may still read room
  if (LANE == 0) room[WARP] = value;
  SYNC();
  value = 0;
  for (int warp = 0; warp < N_WARPS; ++warp) value += room[warp];
#endif
  return value;
}

// Return the position of a column among the sorted entries from lo to hi, -1 if absent.
DEVICE long long place_of(const Rows& rows, long long lo, long long hi, int column) {
  const long long end = hi;
  while (lo < hi) {
    const long long middle = (lo + hi) / 2;
    if (rows.indices[middle] < column) {
      lo = middle + 1;
    } else {
      hi = middle;
    }
  }
  return lo < end && rows.indices[lo] == column ? lo : -1;
}

// Return the value of a column among the sorted entries from lo to hi, 0 if absent.
DEVICE float value_at(const Rows& rows, long long lo, long long hi, int column) {
  const long long at = place_of(rows, lo, hi, column);
  return at < 0 ? 0.0f : rows.data[at];
}

// Return true if z misses the margin; NaN misses. The first thread adds the violation and the hinge loss to the tally.
DEVICE bool violates(float z, float margin, double* tally) {
  const bool missed = !(z >= margin);
  if (missed && THREAD == 0) {
    tally[0] += 1;
    tally[1] += margin - z;
  }
  return missed;
}

// Return the calling thread's share of a diagonal W's contribution to the score of a document.
DEVICE float diagonal_score(const float* diagonal, const Rows& Q, long long q_lo, long long q_hi, const Rows& D,
                            long long lo, long long hi) {
  float z = 0;
  for (long long j = lo + THREAD; j < hi; j += N_THREADS) {
    const float q = value_at(Q, q_lo, q_hi, D.indices[j]);
    if (q != 0) z += load(diagonal + D.indices[j]) * (q * D.data[j]);
  }
  return z;
}

// Take the step of a diagonal W for one document; e is negative for the worse document.
DEVICE void diagonal_step(float* diagonal, fixed_point* sums, const Rows& Q, long long q_lo, long long q_hi,
                          const Rows& D, long long lo, long long hi, float e, int phase) {
  for (long long j = lo + THREAD; j < hi; j += N_THREADS) {
    const float q = value_at(Q, q_lo, q_hi, D.indices[j]);
    if (q == 0) continue;
    const float change = e * (q * D.data[j]);
    change_weight(diagonal, sums, D.indices[j], change, phase);
  }
}
