// RMSNorm of rows, optionally after adding a residual (rms_norm.h). A row is read twice, the second
// time from the cache. Forward: one warp per row up to kWarpWidth features, eight rows per block;
// for wider rows one block per row. Backward: the same threads process many rows, and each
// accumulates the weight's gradient for its own features: in shared memory if the sums fit
// (kSharedBytes), else in global memory. A block then adds its warps' sums in shared memory; a
// second kernel adds all remaining partial sums. Both add in a fixed order.

#include <algorithm>
#include <stdexcept>

#include "kernels/language.h"
#include "kernels/rms_norm_launch.h"
#include "kernels/sums.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int64_t kWarpWidth = 1024;
constexpr int kThreads = 256;
constexpr int64_t kPartials = 512;  // maximum number of blocks of the backward
// Shared memory that is available for sums: the default limit is 48 KiB per block, of which RowSum
// uses one number per warp.
constexpr int64_t kSharedBytes = (int64_t{48} << 10) - kWarp * int64_t{sizeof(double)};
constexpr int kColumns = 32, kParts = 16;  // threads of a block that adds partial sums

Shape ShapeOf(int64_t width, void* stream) {
  Shape shape;
  shape.block_x = width <= kWarpWidth ? kWarp : kThreads;
  shape.block_y = kThreads / shape.block_x;
  shape.stream = stream;
  return shape;
}

// How threads divide the row that they share: each processes kN elements at a time.
template <typename X, typename Y>
struct Row {
  static constexpr int kN = kAtOnce<X, Y>;
  using W = WideOf<X>;

  __device__ static int64_t Begin() { return int64_t{threadIdx.x} * kN; }
  __device__ static int64_t Step() { return int64_t{blockDim.x} * kN; }
};

// The number of blocks in the backward, the number of partial rows per block (1 if its warps' sums
// fit in shared memory), and the bytes of those sums (0 if they do not fit).
struct Partials {
  int64_t blocks, of_block, shared_bytes;
};
Partials PartialsOf(int64_t rows, int64_t width, int64_t number_bytes) {
  const Shape shape = ShapeOf(width, nullptr);
  const int64_t bytes = width * shape.block_y * number_bytes;
  const bool in_shared = bytes <= kSharedBytes;
  return {std::min(kPartials, (rows + shape.block_y - 1) / shape.block_y),
          in_shared ? 1 : shape.block_y, in_shared ? bytes : 0};
}

struct ForwardAligned {
  bool x, added, y;
};

template <typename X, typename Y>
__global__ void __launch_bounds__(kThreads)
    Forward(const RmsNormForwardCall call, const ForwardAligned aligned) {
  using R = Row<X, Y>;
  using W = typename R::W;
  constexpr int kN = R::kN;
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, width = call.width;
  if (row >= call.rows) return;  // the whole warp returns
  const X* x = static_cast<const X*>(call.x.data) + row * call.x.stride;
  const bool adds = call.added.data != nullptr;
  X* const sum = adds ? static_cast<X*>(call.sum) + row * width : nullptr;
  W squares = 0;
  for (int64_t i = R::Begin(); i < width; i += R::Step()) {
    W values[kN];
    Load<kN>(x + i, width - i, aligned.x, values);
    if (adds) {
      W more[kN];
      const int64_t at = row * call.added.stride + i;
      if (call.added_is_y) {
        Load<kN>(static_cast<const Y*>(call.added.data) + at, width - i, aligned.added, more);
      } else {
        Load<kN>(static_cast<const X*>(call.added.data) + at, width - i, aligned.added, more);
      }
      KERNEL_UNROLL for (int j = 0; j < kN; ++j) {
        // The sum is rounded as it is stored, so that the norm is computed from the stored sum.
        values[j] = Wide(Narrow<X>(values[j] + static_cast<W>(call.added_scale) * more[j]));
      }
      Store<kN>(sum + i, width - i, aligned.y, values);
    }
    KERNEL_UNROLL for (int j = 0; j < kN; ++j) squares += values[j] * values[j];
  }
  const W rstd = Rsqrt(RowSum(squares) / static_cast<W>(width) + static_cast<W>(call.eps));
  if (threadIdx.x == 0) static_cast<W*>(call.rstd)[row] = rstd;
  // Each thread rereads only the elements that it wrote itself, so no barrier is needed.
  const X* const normed = adds ? sum : x;
  const bool normed_aligned = adds ? aligned.y : aligned.x;
  Y* const y = static_cast<Y*>(call.y) + row * width;
  for (int64_t i = R::Begin(); i < width; i += R::Step()) {
    W values[kN], weight[kN];
    Load<kN>(normed + i, width - i, normed_aligned, values);
    Load<kN>(static_cast<const W*>(call.weight) + i, width - i, aligned.y, weight);
    KERNEL_UNROLL for (int j = 0; j < kN; ++j) values[j] = values[j] * rstd * weight[j];
    Store<kN>(y + i, width - i, aligned.y, values);
  }
}

struct BackwardAligned {
  bool dy, x, dsum, out, sums;
};

template <typename X, typename Y>
__global__ void __launch_bounds__(kThreads)
    Backward(const RmsNormBackwardCall call, const BackwardAligned aligned, const bool in_shared) {
  using R = Row<X, Y>;
  using W = typename R::W;
  constexpr int kN = R::kN;
  const int64_t width = call.width, first = int64_t{blockIdx.x} * blockDim.y + threadIdx.y,
                groups = int64_t{gridDim.x} * blockDim.y;
  const W* const weight = static_cast<const W*>(call.weight);
  KERNEL_DYNAMIC_SHARED(W, shared);
  W* const partial = static_cast<W*>(call.partial);
  W* const dweight = in_shared ? shared + threadIdx.y * width : partial + first * width;
  if (call.partial != nullptr) {
    const W zeros[kN] = {};
    for (int64_t i = R::Begin(); i < width; i += R::Step())
      Store<kN>(dweight + i, width - i, aligned.sums, zeros);
  }
  for (int64_t row = first; row < call.rows; row += groups) {
    const Y* const dy = static_cast<const Y*>(call.dy.data) + row * call.dy.stride;
    const X* const x = static_cast<const X*>(call.x.data) + row * call.x.stride;
    const W rstd = static_cast<const W*>(call.rstd)[row];
    W sum = 0;
    for (int64_t i = R::Begin(); i < width; i += R::Step()) {
      W g[kN], values[kN], w[kN];
      Load<kN>(dy + i, width - i, aligned.dy, g);
      Load<kN>(x + i, width - i, aligned.x, values);
      Load<kN>(weight + i, width - i, aligned.out, w);
      KERNEL_UNROLL for (int j = 0; j < kN; ++j) sum += g[j] * w[j] * (values[j] * rstd);
    }
    const W mean = RowSum(sum) / static_cast<W>(width);
    for (int64_t i = R::Begin(); i < width; i += R::Step()) {
      W g[kN], values[kN], w[kN];
      Load<kN>(dy + i, width - i, aligned.dy, g);
      Load<kN>(x + i, width - i, aligned.x, values);
      KERNEL_UNROLL for (int j = 0; j < kN; ++j) values[j] *= rstd;
      if (call.partial != nullptr) {
        W sums[kN];
        Load<kN>(dweight + i, width - i, aligned.sums, sums);
        KERNEL_UNROLL for (int j = 0; j < kN; ++j) sums[j] += g[j] * values[j];
        Store<kN>(dweight + i, width - i, aligned.sums, sums);
      }
      if (call.dx == nullptr && call.dadded == nullptr) continue;
      Load<kN>(weight + i, width - i, aligned.out, w);
      KERNEL_UNROLL for (int j = 0; j < kN; ++j) g[j] = rstd * (g[j] * w[j] - values[j] * mean);
      if (call.dsum.data != nullptr) {
        W more[kN];
        Load<kN>(static_cast<const X*>(call.dsum.data) + row * call.dsum.stride + i, width - i,
                 aligned.dsum, more);
        KERNEL_UNROLL for (int j = 0; j < kN; ++j) g[j] += more[j];
      }
      const int64_t at = row * width + i;
      if (call.dx != nullptr) Store<kN>(static_cast<X*>(call.dx) + at, width - i, aligned.out, g);
      if (call.dadded == nullptr) continue;
      KERNEL_UNROLL for (int j = 0; j < kN; ++j) g[j] *= static_cast<W>(call.added_scale);
      if (call.added_is_y) {
        Store<kN>(static_cast<Y*>(call.dadded) + at, width - i, aligned.out, g);
      } else {
        Store<kN>(static_cast<X*>(call.dadded) + at, width - i, aligned.out, g);
      }
    }
  }
  if (call.partial == nullptr || !in_shared) return;
  __syncthreads();  // all warps' sums are complete
  const int64_t thread = int64_t{threadIdx.y} * blockDim.x + threadIdx.x;
  for (int64_t i = thread; i < width; i += int64_t{blockDim.x} * blockDim.y) {
    W sum = shared[i];
    for (unsigned row = 1; row < blockDim.y; ++row) sum += shared[row * width + i];
    partial[blockIdx.x * width + i] = sum;
  }
}

// sums[i] = sum over p of partial[p, i].
template <typename W>
__global__ void __launch_bounds__(kColumns* kParts)
    AddPartials(const W* partial, int64_t partials, int64_t width, W* sums) {
  KERNEL_SHARED(W, of_part, kColumns * kParts);
  const int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  W sum = 0;
  if (column < width) {
    for (int64_t p = threadIdx.y; p < partials; p += kParts) sum += partial[p * width + column];
  }
  of_part[threadIdx.y * kColumns + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int part = 1; part < kParts; ++part) sum += of_part[part * kColumns + threadIdx.x];
  sums[column] = sum;
}

template <typename X, typename Y>
void LaunchTyped(const RmsNormForwardCall& call, void* stream) {
  constexpr int kN = Row<X, Y>::kN;
  Shape shape = ShapeOf(call.width, stream);
  shape.grid_x = (call.rows + shape.block_y - 1) / shape.block_y;
  const auto fits = [&](const void* data, auto type, int64_t stride) {
    return IsAligned<kN>(static_cast<const decltype(type)*>(data), stride, call.width);
  };
  using W = WideOf<X>;
  const ForwardAligned aligned = {fits(call.x.data, X{}, call.x.stride),
                                  call.added_is_y ? fits(call.added.data, Y{}, call.added.stride)
                                                  : fits(call.added.data, X{}, call.added.stride),
                                  fits(call.y, Y{}, call.width) &&
                                      fits(call.sum, X{}, call.width) &&
                                      fits(call.weight, W{}, call.width)};
  Launch(shape, &Forward<X, Y>, call, aligned);
}

template <typename X, typename Y>
void LaunchTyped(const RmsNormBackwardCall& call, void* stream) {
  using W = WideOf<X>;
  constexpr int kN = Row<X, Y>::kN;
  Shape shape = ShapeOf(call.width, stream);
  const Partials partials = PartialsOf(call.rows, call.width, sizeof(W));
  shape.grid_x = partials.blocks;
  const bool in_shared = call.partial != nullptr && partials.shared_bytes > 0;
  if (in_shared) shape.shared_bytes = partials.shared_bytes;
  const auto fits = [&](const void* data, auto type, int64_t stride) {
    return IsAligned<kN>(static_cast<const decltype(type)*>(data), stride, call.width);
  };
  const BackwardAligned aligned = {
      fits(call.dy.data, Y{}, call.dy.stride), fits(call.x.data, X{}, call.x.stride),
      fits(call.dsum.data, X{}, call.dsum.stride),
      fits(call.dx, X{}, call.width) && fits(call.weight, W{}, call.width) &&
          (call.added_is_y ? fits(call.dadded, Y{}, call.width)
                           : fits(call.dadded, X{}, call.width)),
      fits(call.partial, W{}, call.width)};
  Launch(shape, &Backward<X, Y>, call, aligned, in_shared);
  if (call.partial == nullptr) return;
  Shape adding;
  adding.block_x = kColumns;
  adding.block_y = kParts;
  adding.grid_x = (call.width + kColumns - 1) / kColumns;
  adding.stream = stream;
  Launch(adding, &AddPartials<W>, static_cast<const W*>(call.partial),
         partials.blocks * partials.of_block, call.width, static_cast<W*>(call.dweight));
}

template <typename Call>
void LaunchByType(const Call& call, void* stream) {
  const auto both = [&](Type type) { return call.x_type == type && call.y_type == type; };
  if (both(Type::kDouble)) return LaunchTyped<double, double>(call, stream);
  if (both(Type::kBf16)) return LaunchTyped<Bf16, Bf16>(call, stream);
  if (both(Type::kHalf)) return LaunchTyped<Half, Half>(call, stream);
  if (both(Type::kFloat)) return LaunchTyped<float, float>(call, stream);
  if (call.x_type == Type::kFloat && call.y_type == Type::kBf16)
    return LaunchTyped<float, Bf16>(call, stream);
  if (call.x_type == Type::kFloat && call.y_type == Type::kHalf)
    return LaunchTyped<float, Half>(call, stream);
  if (call.x_type == Type::kBf16 && call.y_type == Type::kFloat)
    return LaunchTyped<Bf16, float>(call, stream);
  if (call.x_type == Type::kHalf && call.y_type == Type::kFloat)
    return LaunchTyped<Half, float>(call, stream);
  throw std::runtime_error("RMSNorm: no kernel for these dtypes");
}

}  // namespace

void LaunchRmsNorm(const RmsNormForwardCall& call, void* stream) { LaunchByType(call, stream); }

int64_t RmsNormPartials(int64_t rows, int64_t width, int64_t number_bytes) {
  const Partials partials = PartialsOf(rows, width, number_bytes);
  return partials.blocks * partials.of_block;
}

void LaunchRmsNormBackward(const RmsNormBackwardCall& call, void* stream) {
  LaunchByType(call, stream);
}

}  // namespace moonring::kernels::KERNEL_SIDE
