#include "kernels/softmax_merge_launch.h"

#include <limits>

#include "kernels/language.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kWarps = 8, kTogether = 4;

template <typename W>
constexpr W kLowest = std::numeric_limits<W>::lowest();

template <typename T, typename Data>
__device__ T* At(const RowsAndHeads<Data>& tensor, int64_t row, int64_t head) {
  return static_cast<T*>(tensor.data) + row * tensor.row_stride + head * tensor.head_stride;
}

template <typename T, typename Data>
bool AreAligned(const RowsAndHeads<Data>& tensor) {
  return IsAligned<kTogether>(static_cast<const T*>(tensor.data), tensor.row_stride,
                              tensor.head_stride);
}

// The head of a row that a warp works on.
struct Pair {
  bool there;
  int64_t row, head;
};

__device__ inline Pair PairOf(const SoftmaxSums& sums) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (i >= sums.rows * sums.heads) return {false, 0, 0};
  return {true, i / sums.heads, i % sums.heads};
}

template <typename Out, typename W>
__global__ void Merge(SoftmaxPart part, SoftmaxSums sums, bool aligned) {
  constexpr int N = kTogether;
  const int lane = threadIdx.x % kWarp;
  const Pair pair = PairOf(sums);
  const int64_t to = part.rows == nullptr ? pair.row : part.rows[pair.row];
  W* const max_at = At<W>(sums.max, to, pair.head);
  const W max = *max_at, lse = *At<const W>(part.lse, pair.row, pair.head),
          new_max = max > lse ? max : lse, base = new_max > kLowest<W> ? new_max : kLowest<W>,
          keep = std::exp(max - base), add = std::exp(lse - base);
  if (!pair.there) return;  // the whole warp returns
  __syncwarp();             // all lanes have read m
  if (lane == 0) {
    W* const sum = At<W>(sums.sum, to, pair.head);
    *sum = *sum * keep + add;
    *max_at = new_max;
  }
  W* const weighted = At<W>(sums.weighted, to, pair.head);
  const Out* const out = At<const Out>(part.out, pair.row, pair.head);
  for (int64_t d = lane * N; d < sums.head_dim; d += kWarp * N) {
    const int64_t left = sums.head_dim - d;
    W held[N], from[N];
    Load<N>(weighted + d, left, aligned && left >= N, held);
    Load<N>(out + d, left, aligned && left >= N, from);
    KERNEL_UNROLL for (int k = 0; k < N; ++k) held[k] = held[k] * keep + from[k] * add;
    Store<N>(weighted + d, left, aligned && left >= N, held);
  }
}

template <typename W>
__global__ void Finish(SoftmaxSums sums, bool aligned) {
  constexpr int N = kTogether;
  const int lane = threadIdx.x % kWarp;
  const Pair pair = PairOf(sums);
  if (!pair.there) return;
  const W sum = *At<W>(sums.sum, pair.row, pair.head), divisor = sum == W(0) ? W(1) : sum;
  if (lane == 0) *At<W>(sums.max, pair.row, pair.head) += std::log(divisor);
  W* const weighted = At<W>(sums.weighted, pair.row, pair.head);
  for (int64_t d = lane * N; d < sums.head_dim; d += kWarp * N) {
    const int64_t left = sums.head_dim - d;
    W out[N];
    Load<N>(weighted + d, left, aligned && left >= N, out);
    KERNEL_UNROLL for (int k = 0; k < N; ++k) out[k] /= divisor;
    Store<N>(weighted + d, left, aligned && left >= N, out);
  }
}

Shape ShapeOf(const SoftmaxSums& sums, void* stream) {
  return {.grid_x = (sums.rows * sums.heads + kWarps - 1) / kWarps,
          .block_x = kWarps * kWarp,
          .stream = stream};
}

template <typename Out, typename W>
void LaunchTyped(const Shape& shape, const SoftmaxPart& part, const SoftmaxSums& sums) {
  const bool aligned = AreAligned<Out>(part.out) && AreAligned<W>(sums.weighted);
  Launch(shape, &Merge<Out, W>, part, sums, aligned);
}

}  // namespace

void LaunchSoftmaxMerge(const SoftmaxPart& part, const SoftmaxSums& sums, void* stream) {
  const Shape shape = ShapeOf(sums, stream);
  if (shape.grid_x == 0) return;
  if (sums.type == Type::kDouble) return LaunchTyped<double, double>(shape, part, sums);
  if (part.type == Type::kBf16) return LaunchTyped<Bf16, float>(shape, part, sums);
  if (part.type == Type::kHalf) return LaunchTyped<Half, float>(shape, part, sums);
  LaunchTyped<float, float>(shape, part, sums);
}

void LaunchSoftmaxFinish(const SoftmaxSums& sums, void* stream) {
  const Shape shape = ShapeOf(sums, stream);
  if (shape.grid_x == 0) return;
  sums.type == Type::kDouble
      ? Launch(shape, &Finish<double>, sums, AreAligned<double>(sums.weighted))
      : Launch(shape, &Finish<float>, sums, AreAligned<float>(sums.weighted));
}

}  // namespace moonring::kernels::KERNEL_SIDE
