// The computations within chunks of the gated delta rule (delta_scores.h). Four threads share a
// column of a matrix, 16 rows each: the decay between two tokens is a running sum down the column.

#include "kernels/delta_scores_launch.h"
#include "kernels/language.h"
#include "kernels/sums.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kTokens = 64;  // per chunk
constexpr int kParts = 4, kRows = kTokens / kParts;
constexpr int kThreads = kTokens * kParts, kWarps = kThreads / kWarp;
constexpr int kStride = kTokens + 1;  // of a matrix in shared memory

// A thread's section of a matrix: rows [first, first + kRows) of a column.
struct Part {
  int column, first;
  __device__ Part()
      : column(static_cast<int>(threadIdx.x) % kTokens),
        first(static_cast<int>(threadIdx.x) / kTokens * kRows) {}
};

// Calls each(row, exp(D)) for each row of a thread's section, from the top down; above the diagonal
// it passes 0 for exp(D).
template <typename Each>
__device__ __forceinline__ void ForPairs(const Part& part, const float* decay, const Each& each) {
  float sum = 0;
  for (int i = part.column + 1; i < part.first; ++i) sum += decay[i];
  for (int row = part.first; row < part.first + kRows; ++row) {
    if (row > part.column) sum += decay[row];
    each(row, row < part.column ? 0.0f : Exp(sum));
  }
}

__global__ void __launch_bounds__(kThreads) Scores(const DeltaScoresCall call) {
  KERNEL_SHARED(float, system, kTokens* kStride);
  KERNEL_SHARED(float, made, kTokens* kStride);
  KERNEL_SHARED(float, decay, kTokens);
  KERNEL_SHARED(float, beta, kTokens);
  const int64_t matrix = int64_t{blockIdx.x} * kTokens * kTokens,
                column = int64_t{blockIdx.x} * kTokens;
  const Part part;
  if (part.first == 0) {
    decay[part.column] = call.g[column + part.column];
    beta[part.column] = call.beta[column + part.column];
  }
  __syncthreads();
  ForPairs(part, decay, [&](int row, float factor) {
    const int64_t at = matrix + row * kTokens + part.column;
    if (call.query != nullptr) call.query[at] = row < part.column ? 0.0f : call.query[at] * factor;
    const float key = row <= part.column ? 0.0f : call.key[at] * factor;
    call.key[at] = key;
    system[row * kStride + part.column] = key * beta[row];
  });
  __syncthreads();
  // Solves (I + system) X = I by forward substitution, one column per thread.
  if (part.first == 0) {
    for (int row = 0; row < kTokens; ++row) {
      float value = row == part.column ? 1.0f : 0.0f;
      for (int i = 0; i < row; ++i)
        value -= system[row * kStride + i] * made[i * kStride + part.column];
      made[row * kStride + part.column] = value;
    }
  }
  __syncthreads();
  for (int row = part.first; row < part.first + kRows; ++row) {
    const int64_t at = matrix + row * kTokens + part.column;
    const float value = made[row * kStride + part.column];
    call.inverse[at] = value;
    call.scaled[at] = value * beta[part.column];
  }
}

__global__ void __launch_bounds__(kThreads) ScoresBackward(const DeltaScoresBackwardCall call) {
  KERNEL_SHARED(float, exponent, kTokens* kStride);  // the gradient of D
  KERNEL_SHARED(float, of_key, kTokens* kStride);    // K
  KERNEL_SHARED(float, decay, kTokens);
  KERNEL_SHARED(float, beta, kTokens);
  const int64_t matrix = int64_t{blockIdx.x} * kTokens * kTokens,
                column = int64_t{blockIdx.x} * kTokens;
  const Part part;
  if (part.first == 0) {
    decay[part.column] = call.g[column + part.column];
    beta[part.column] = call.beta[column + part.column];
  }
  __syncthreads();
  // First computes the row sums of R key, in the buffer that K fills later.
  for (int row = part.first; row < part.first + kRows; ++row) {
    const int64_t at = matrix + row * kTokens + part.column;
    of_key[row * kStride + part.column] = row <= part.column ? 0.0f : call.r[at] * call.key[at];
  }
  __syncthreads();
  if (part.first == 0) {
    float sum = 0;
    for (int i = 0; i < part.column; ++i) sum -= of_key[part.column * kStride + i];
    call.dbeta[column + part.column] = sum;
  }
  __syncthreads();
  ForPairs(part, decay, [&](int row, float factor) {
    const int64_t at = matrix + row * kTokens + part.column;
    const bool is_query = row >= part.column, is_key = row > part.column;
    const float query = is_query ? call.p[at] : 0.0f, key = is_key ? -beta[row] * call.r[at] : 0.0f;
    call.p[at] = is_query ? query * factor : 0.0f;
    of_key[row * kStride + part.column] = is_key ? key * factor : 0.0f;
    exponent[row * kStride + part.column] =
        is_query ? query * call.query[at] + (is_key ? key * call.key[at] : 0.0f) : 0.0f;
  });
  __syncthreads();
  if (part.first == 0) {  // down a column: for each row the sum from that row on
    float sum = 0;
    for (int row = kTokens - 1; row >= 0; --row) {
      float& at = exponent[row * kStride + part.column];
      sum += at;
      at = sum;
    }
  }
  for (int row = part.first; row < part.first + kRows; ++row) {
    call.r[matrix + row * kTokens + part.column] =
        of_key[row * kStride + part.column] + of_key[part.column * kStride + row];
  }
  __syncthreads();
  if (part.first == 0) {
    float sum = 0;
    for (int i = 0; i < part.column; ++i) sum += exponent[part.column * kStride + i];
    call.dg[column + part.column] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) Gradients(const DeltaGradientsCall call) {
  KERNEL_SHARED(float, of_start, kTokens);  // gradients of G and of G_C - G
  KERNEL_SHARED(float, of_end, kTokens);
  KERNEL_SHARED(float, of_states, kWarps);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int64_t column = int64_t{blockIdx.x} * kTokens;
  for (int row = warp; row < kTokens; row += kWarps) {
    const float from_start = call.from_start[column + row], to_end = call.to_end[column + row],
                beta = call.beta[column + row];
    float start = 0, end = 0, right = 0;
    for (int64_t i = lane; i < call.keys; i += kWarp) {
      const int64_t at = (column + row) * call.keys + i;
      const float q = from_start * call.d_start_q[at], k = -beta * from_start * call.d_start_k[at],
                  later = to_end * call.d_end_k[at];
      call.dq[at] += q;
      call.dk[at] += k + later;
      start += q * call.q[at] + k * call.k[at];
      end += later * call.k[at];
    }
    for (int64_t i = lane; i < call.width; i += kWarp) {
      const int64_t at = (column + row) * call.width + i;
      const float dr = call.dr[at];
      right += dr * call.unscaled[at];
      call.dr[at] = dr * beta;
    }
    start = WarpSum(start);
    end = WarpSum(end);
    right = WarpSum(right);
    if (lane == 0) {
      of_start[row] = start;
      of_end[row] = end;
      call.dbeta[column + row] += right;
    }
  }
  const int64_t state = call.keys * call.width, first = int64_t{blockIdx.x} * state;
  float sum = 0;
  for (int64_t i = thread; i < state; i += kThreads)
    sum += call.states[first + i] * call.d_states[first + i];
  sum = WarpSum(sum);
  if (lane == 0) of_states[warp] = sum;
  __syncthreads();
  if (thread >= kTokens) return;
  float whole = 0;
  for (int i = 0; i < kWarps; ++i) whole += of_states[i];
  float value = whole * call.from_start[column + kTokens - 1];
  for (int i = thread; i < kTokens; ++i) value += of_start[i];
  for (int i = 0; i < thread; ++i) value += of_end[i];
  call.dg[column + thread] += value;
}

template <typename Call>
void LaunchBlocks(void (*kernel)(Call), const Call& call, void* stream) {
  Launch({.grid_x = call.blocks, .block_x = kThreads, .stream = stream}, kernel, call);
}

}  // namespace

void LaunchDeltaScores(const DeltaScoresCall& call, void* stream) {
  LaunchBlocks(&Scores, call, stream);
}
void LaunchDeltaScoresBackward(const DeltaScoresBackwardCall& call, void* stream) {
  LaunchBlocks(&ScoresBackward, call, stream);
}
void LaunchDeltaGradients(const DeltaGradientsCall& call, void* stream) {
  LaunchBlocks(&Gradients, call, stream);
}

}  // namespace moonring::kernels::KERNEL_SIDE
