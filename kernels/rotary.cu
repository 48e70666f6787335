// Rotary position embedding of q and k (rotary.h): one block per token, so that its cosines and
// sines are read from memory once for all heads.

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/rotary_launch.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 256;

// Rotates N pairs from the f-th on; a pair is from the two halves of a head, or adjacent.
template <int N, typename T>
__device__ __forceinline__ void Turn(const RotaryCall& call, const T* from, T* to, int64_t row,
                                     int64_t f, bool aligned) {
  using W = WideOf<T>;
  const int64_t left = call.pairs - f, at = row * call.pairs + f;
  W cos[N], sin[N], a[N], b[N];
  Load<N>(static_cast<const W*>(call.cos) + at, left, aligned, cos);
  Load<N>(static_cast<const W*>(call.sin) + at, left, aligned, sin);
  if (call.back) {
    KERNEL_UNROLL for (int i = 0; i < N; ++i) sin[i] = -sin[i];
  }
  if (!call.interleaved) {
    Load<N>(from + f, left, aligned, a);
    Load<N>(from + call.pairs + f, left, aligned, b);
    KERNEL_UNROLL for (int i = 0; i < N; ++i) {
      const W first = a[i];
      a[i] = first * cos[i] - b[i] * sin[i];
      b[i] = b[i] * cos[i] + first * sin[i];
    }
    Store<N>(to + f, left, aligned, a);
    Store<N>(to + call.pairs + f, left, aligned, b);
    return;
  }
  Load<N>(from + 2 * f, 2 * left, aligned, a);
  Load<N>(from + 2 * f + N, 2 * left - N, aligned, b);
  KERNEL_UNROLL for (int i = 0; i < N; ++i) {
    W* const pair = i < N / 2 ? a + 2 * i : b + 2 * i - N;
    const W first = pair[0];
    pair[0] = first * cos[i] - pair[1] * sin[i];
    pair[1] = pair[1] * cos[i] + first * sin[i];
  }
  Store<N>(to + 2 * f, 2 * left, aligned, a);
  Store<N>(to + 2 * f + N, 2 * left - N, aligned, b);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) Rotate(const RotaryCall call, const bool aligned) {
  constexpr int kN = kAtOnce<T>;
  using W = WideOf<T>;
  const int64_t row = blockIdx.x;
  const auto turning = static_cast<int>((call.pairs + kN - 1) / kN);
  const auto rest = static_cast<int>((call.width - 2 * call.pairs + kN - 1) / kN);
  const int pieces = turning + rest, heads = static_cast<int>(call.q.count + call.k.count);
  for (int i = static_cast<int>(threadIdx.x); i < heads * pieces; i += kThreads) {
    const int piece = i % pieces;
    int head = i / pieces;
    const bool is_q = head < call.q.count;
    const Heads& of = is_q ? call.q : call.k;
    if (!is_q) head -= static_cast<int>(call.q.count);
    const T* const from =
        static_cast<const T*>(of.from.data) + row * of.from.stride + head * of.head_stride;
    T* const to = static_cast<T*>(of.to) + (row * of.count + head) * call.width;
    if (piece < turning) {
      Turn<kN>(call, from, to, row, int64_t{piece} * kN, aligned);
    } else {
      const int64_t at = 2 * call.pairs + int64_t{piece - turning} * kN;
      W values[kN];
      Load<kN>(from + at, call.width - at, aligned, values);
      Store<kN>(to + at, call.width - at, aligned, values);
    }
  }
}

template <typename T>
void LaunchTyped(const RotaryCall& call, void* stream) {
  constexpr int kN = kAtOnce<T>;
  using W = WideOf<T>;
  const auto fits = [&](const Heads& heads) {
    return IsAligned<kN>(static_cast<const T*>(heads.from.data), heads.from.stride, call.width) &&
           heads.head_stride % kN == 0 &&
           IsAligned<kN>(static_cast<const T*>(heads.to), call.width, call.width);
  };
  const bool aligned = fits(call.q) && fits(call.k) &&
                       IsAligned<kN>(static_cast<const W*>(call.cos), call.pairs, call.pairs) &&
                       IsAligned<kN>(static_cast<const W*>(call.sin), call.pairs, call.pairs);
  Shape shape;
  shape.grid_x = call.rows;
  shape.block_x = kThreads;
  shape.stream = stream;
  Launch(shape, &Rotate<T>, call, aligned);
}

}  // namespace

void LaunchRotary(const RotaryCall& call, void* stream) {
  ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, stream); });
}

}  // namespace moonring::kernels::KERNEL_SIDE
