// Packs rows of a stream into chunks, and unpacks them (delta_pack.h). When packing, a block
// processes a chunk of a head: first its decays, then one warp per row. When unpacking, a warp
// processes a row of a head. A lane has every 32nd channel.

#include <stdexcept>

#include "kernels/delta_pack_launch.h"
#include "kernels/language.h"
#include "kernels/sums.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kTokens = 64;  // per chunk
constexpr int kWarps = 8;
constexpr int kOfLane = 8;  // channels per lane of a normalized row: 256 at most

template <typename T, typename Data>
__device__ __forceinline__ T* At(const TokensAndHeads<Data>& rows, int64_t token, int64_t head) {
  return static_cast<T*>(rows.data) + token * rows.token_stride + head * rows.head_stride;
}

// Loads a row into the registers of its warp, with zeros beyond its width.
template <typename T>
__device__ __forceinline__ void LoadRow(const T* from, int64_t width, float (&row)[kOfLane]) {
  const int lane = threadIdx.x % kWarp;
  KERNEL_UNROLL for (int i = 0; i < kOfLane; ++i) {
    const int64_t at = lane + i * kWarp;
    row[i] = at < width ? Wide(from[at]) : 0.0f;
  }
}

__device__ __forceinline__ float Dot(const float (&a)[kOfLane], const float (&b)[kOfLane]) {
  float sum = 0;
  KERNEL_UNROLL for (int i = 0; i < kOfLane; ++i) sum += a[i] * b[i];
  return WarpSum(sum);
}

__device__ __forceinline__ void StoreRow(float* to, int64_t width, const float (&row)[kOfLane],
                                         float factor) {
  const int lane = threadIdx.x % kWarp;
  KERNEL_UNROLL for (int i = 0; i < kOfLane; ++i) {
    const int64_t at = lane + i * kWarp;
    if (at < width) to[at] = row[i] * factor;
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) Pack(const DeltaPackCall call) {
  KERNEL_SHARED(float, decay, kTokens);
  KERNEL_SHARED(float, of_start, kTokens);
  KERNEL_SHARED(float, of_end, kTokens);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int64_t at = blockIdx.x, chunk = at / call.heads, head = at % call.heads,
                key_head = head / (call.heads / call.key_heads);
  const int64_t* const tokens = call.token_of_slot + chunk * kTokens;
  if (thread < kTokens) {
    const int64_t token = tokens[thread], to = at * kTokens + thread;
    decay[thread] = token < 0 ? 0.0f : *At<const float>(call.g, token, head);
    call.packed_g[to] = decay[thread];
    call.packed_beta[to] = token < 0 ? 0.0f : *At<const float>(call.beta, token, head);
  }
  __syncthreads();
  if (thread < kTokens) {
    // Each thread computes its own sums: a difference of two prefix sums would be less exact.
    float before = 0, after = 0;
    for (int i = 0; i <= thread; ++i) before += decay[i];
    for (int i = thread + 1; i < kTokens; ++i) after += decay[i];
    call.from_start[at * kTokens + thread] = of_start[thread] = Exp(before);
    call.to_end[at * kTokens + thread] = of_end[thread] = Exp(after);
  }
  __syncthreads();
  for (int row = thread / kWarp; row < kTokens; row += kWarps) {
    const int64_t token = tokens[row], to = at * kTokens + row;
    float x[kOfLane];
    LoadRow(token < 0 ? nullptr : At<const T>(call.k, token, key_head), token < 0 ? 0 : call.keys,
            x);
    float factor = call.normalize ? Rsqrt(Dot(x, x) + call.eps) : 1.0f;
    StoreRow(call.packed_k + to * call.keys, call.keys, x, factor);
    StoreRow(call.start_k + to * call.keys, call.keys, x, factor * of_start[row]);
    StoreRow(call.end_k + to * call.keys, call.keys, x, factor * of_end[row]);
    if (call.q.data != nullptr) {
      LoadRow(token < 0 ? nullptr : At<const T>(call.q, token, key_head), token < 0 ? 0 : call.keys,
              x);
      factor = (call.normalize ? Rsqrt(Dot(x, x) + call.eps) : 1.0f) * call.scale;
      StoreRow(call.packed_q + to * call.keys, call.keys, x, factor);
      StoreRow(call.start_q + to * call.keys, call.keys, x, factor * of_start[row]);
    }
    for (int64_t i = lane; i < call.width; i += kWarp) {
      call.packed_v[to * call.width + i] =
          token < 0 ? 0.0f : Wide(At<const T>(call.v, token, head)[i]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) PackRows(const DeltaPackRowsCall call) {
  const int64_t at = blockIdx.x, chunk = at / call.heads, head = at % call.heads;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  for (int row = thread / kWarp; row < kTokens; row += kWarps) {
    const int64_t token = call.token_of_slot[chunk * kTokens + row];
    float* const to = call.packed + (at * kTokens + row) * call.width;
    for (int64_t i = lane; i < call.width; i += kWarp) {
      to[i] = token < 0 ? 0.0f : Wide(At<const T>(call.rows, token, head)[i]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) Unpack(const DeltaUnpackCall call) {
  const int64_t at = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp, slot = at / call.heads,
                head = at % call.heads;
  const int64_t token = call.token_of_slot[slot],
                first = (slot / kTokens * call.heads + head) * call.groups;
  if (token < 0) return;  // the whole warp returns
  const auto sum_at = [&](int64_t i) {
    float sum = 0;
    for (int64_t group = 0; group < call.groups; ++group)
      sum += call.packed[((first + group) * kTokens + slot % kTokens) * call.width + i];
    return sum * call.scale;
  };
  T* const to = At<T>(call.rows, token, head);
  const int lane = threadIdx.x % kWarp;
  if (call.x.data == nullptr) {
    for (int64_t i = lane; i < call.width; i += kWarp) to[i] = Narrow<T>(sum_at(i));
    return;
  }
  float x[kOfLane], d[kOfLane];
  LoadRow(At<const T>(call.x, token, head), call.width, x);
  const float inverse = Rsqrt(Dot(x, x) + call.eps);
  KERNEL_UNROLL for (int i = 0; i < kOfLane; ++i) {
    const int64_t column = lane + i * kWarp;
    x[i] *= inverse;
    d[i] = column < call.width ? sum_at(column) : 0.0f;
  }
  const float along = Dot(d, x);
  KERNEL_UNROLL for (int i = 0; i < kOfLane; ++i) {
    const int64_t column = lane + i * kWarp;
    if (column < call.width) to[column] = Narrow<T>((d[i] - x[i] * along) * inverse);
  }
}

// Calls `launch` with a value of that type.
template <typename F>
void ByNarrowType(Type type, const F& launch) {
  switch (type) {
    case Type::kFloat:
      return launch(float{});
    case Type::kBf16:
      return launch(Bf16{});
    case Type::kHalf:
      return launch(Half{});
    default:
      throw std::runtime_error("delta_pack: no kernel for fp64");
  }
}

}  // namespace

void LaunchDeltaPack(const DeltaPackCall& call, void* stream) {
  ByNarrowType(call.type, [&](auto number) {
    Launch({.grid_x = call.chunks * call.heads, .block_x = kWarps * kWarp, .stream = stream},
           &Pack<decltype(number)>, call);
  });
}

void LaunchDeltaPackRows(const DeltaPackRowsCall& call, void* stream) {
  ByNarrowType(call.type, [&](auto number) {
    Launch({.grid_x = call.chunks * call.heads, .block_x = kWarps * kWarp, .stream = stream},
           &PackRows<decltype(number)>, call);
  });
}

void LaunchDeltaUnpack(const DeltaUnpackCall& call, void* stream) {
  ByNarrowType(call.type, [&](auto number) {
    Launch({.grid_x = call.chunks * call.heads * (kTokens / kWarps),
            .block_x = kWarps * kWarp,
            .stream = stream},
           &Unpack<decltype(number)>, call);
  });
}

}  // namespace moonring::kernels::KERNEL_SIDE
