#include "kernels/score_rows_launch.h"

#include <limits>

#include "kernels/language.h"
#include "kernels/sums.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kTogether = 8, kMostThreads = 512, kFewestThreads = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kLowest = std::numeric_limits<float>::lowest();

using Numbers = float[kTogether];

// The keys [first, end) that a row attends to; empty for a row beyond the end.
struct SeenKeys {
  int first, end;

  // Whether the row attends to any of the `count` keys that begin with `key`.
  __device__ bool HasSome(int key, int count) const { return key < end && key + count > first; }
};

// The row that this thread works on.
struct Row {
  int64_t row;
  bool there;
  SeenKeys seen;
};

__device__ __forceinline__ Row RowOf(const ScoreRowsCall& call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y,
                of_tile = call.heads * call.queries, tile = row / of_tile, i = row % call.queries;
  if (tile >= call.tiles) return {0, false, {0, 0}};
  const int64_t* const seen = call.seen_B4 + 4 * tile;
  const int64_t low = i + seen[2], high = i + seen[3] + 1,
                keys = seen[1] < call.keys ? seen[1] : call.keys, first = low > 0 ? low : 0,
                end = high < keys ? high : keys;
  if (i >= seen[0] || first >= end) return {row, true, {0, 0}};
  return {row, true, {static_cast<int>(first), static_cast<int>(end)}};
}

// The number subtracted before exp: the maximum, or a finite number if the row attends to nothing,
// because -inf - -inf is NaN.
__device__ __forceinline__ float Base(float max) { return max > kLowest ? max : kLowest; }

// Converts x to z, and computes the tanh of the softcap.
class Curve {
 public:
  __device__ explicit Curve(const ScoreRowsCall& call)
      : softcap_(static_cast<float>(call.softcap)),
        scale_(static_cast<float>(call.softcap == 0.0 ? call.scale : call.scale / call.softcap)) {}

  __device__ float Bent(float x) const { return softcap_ == 0.0f ? 0.0f : std::tanh(scale_ * x); }
  __device__ float Z(float x, float bent) const {
    return softcap_ == 0.0f ? scale_ * x : softcap_ * bent;
  }
  __device__ float Z(float x) const { return Z(x, Bent(x)); }

 private:
  float softcap_, scale_;
};

// Loads z of the keys that begin with `key`; -inf for keys that the row does not attend to.
__device__ __forceinline__ void LoadScores(const float* x_row, int key, int keys, bool aligned,
                                           const SeenKeys& seen, const Curve& curve, Numbers& z) {
  Load<kTogether>(x_row + key, keys - key, aligned, z);
  KERNEL_UNROLL for (int k = 0; k < kTogether; ++k) z[k] =
      key + k >= seen.first && key + k < seen.end ? curve.Z(z[k]) : -kInfinity;
}

// The maximum over a row's threads (those with one threadIdx.y), returned in each of them.
__device__ __forceinline__ float RowMax(float x) {
  KERNEL_UNROLL for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, x, lanes);
    x = other > x ? other : x;
  }
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return x;
  KERNEL_SHARED(float, of_warp, 32);
  const int first = static_cast<int>(threadIdx.y) * warps;
  if (threadIdx.x % kWarp == 0) of_warp[first + static_cast<int>(threadIdx.x) / kWarp] = x;
  __syncthreads();
  float max = of_warp[first];
  for (int i = 1; i < warps; ++i) max = of_warp[first + i] > max ? of_warp[first + i] : max;
  return max;
}

__host__ __device__ constexpr int Words(int64_t keys) {
  return static_cast<int>((keys + kTogether - 1) / kTogether * kTogether);
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    Forward(ScoreRowsCall call, ScoreSums sums, bool aligned, bool held) {
  constexpr int N = kTogether;
  KERNEL_DYNAMIC_SHARED(float, z_of_block);
  const Row row = RowOf(call);
  const Curve curve(call);
  const int keys = static_cast<int>(call.keys), step = static_cast<int>(blockDim.x) * N,
            at = static_cast<int>(threadIdx.x) * N;
  const float* const x = call.x + row.row * call.x_stride;
  T* const p = static_cast<T*>(call.p) + row.row * call.p_stride;
  // The row's scores in shared memory. Each thread reads only what it wrote itself, so no barrier
  // is needed.
  float* const z_row = z_of_block + (held ? static_cast<int>(threadIdx.y) * Words(keys) : 0);
  float max = -kInfinity;
  for (int key = at; key < keys; key += step) {
    if (!row.seen.HasSome(key, N)) continue;
    float z[N];
    LoadScores(x, key, keys, aligned, row.seen, curve, z);
    KERNEL_UNROLL for (int k = 0; k < N; ++k) max = z[k] > max ? z[k] : max;
    if (held) Store<N>(z_row + key, N, true, z);
  }
  const float base = Base(RowMax(max));  // all of the row's threads have read x
  float sum = 0.0f;
  for (int begin = 0; begin < keys; begin += step) {
    const int key = begin + at;
    const bool writes = row.there && key < keys;
    float e[N] = {};
    if (writes && row.seen.HasSome(key, N)) {
      held ? Load<N>(z_row + key, N, true, e)
           : LoadScores(x, key, keys, aligned, row.seen, curve, e);
      KERNEL_UNROLL for (int k = 0; k < N; ++k) {
        e[k] = std::exp(e[k] - base);
        sum += e[k];
      }
    }
    if (!held) __syncthreads();  // p may overlap parts of x that other threads still read
    if (writes) Store<N>(p + key, keys - key, aligned, e);
  }
  sum = RowSum(sum);
  if (threadIdx.x != 0 || !row.there) return;
  sums.lse[row.row] = std::log(sum) + base;
  sums.sum[row.row] = sum == 0.0f ? 1.0f : sum;
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    Backward(ScoreRowsCall call, ScoreGradients gradients, bool aligned) {
  constexpr int N = kTogether;
  const Row row = RowOf(call);
  const Curve curve(call);
  const int keys = static_cast<int>(call.keys), step = static_cast<int>(blockDim.x) * N;
  const float *const x = call.x + row.row * call.x_stride, *const y = gradients.y +
                                                                      row.row * gradients.y_stride;
  T *const p_row = static_cast<T*>(call.p) + row.row * call.p_stride, *const ds_row =
                                                                          static_cast<T*>(
                                                                              gradients.ds) +
                                                                          row.row *
                                                                              gradients.ds_stride;
  const float base = Base(gradients.lse[row.row]), delta = gradients.delta[row.row];
  for (int begin = 0; begin < keys; begin += step) {
    const int key = begin + static_cast<int>(threadIdx.x) * N;
    const bool writes = row.there && key < keys;
    float p[N] = {}, ds[N] = {};
    if (writes && row.seen.HasSome(key, N)) {
      Load<N>(x + key, keys - key, aligned, p);
      Load<N>(y + key, keys - key, aligned, ds);
      KERNEL_UNROLL for (int k = 0; k < N; ++k) {
        const bool sees = key + k >= row.seen.first && key + k < row.seen.end;
        const float bent = curve.Bent(p[k]);
        p[k] = sees ? std::exp(curve.Z(p[k], bent) - base) : 0.0f;
        ds[k] = sees ? p[k] * (ds[k] - delta) * (1.0f - bent * bent) : 0.0f;
      }
    }
    __syncthreads();  // p and ds may overlap parts of x and y still being read
    if (!writes) continue;
    Store<N>(p_row + key, keys - key, aligned, p);
    Store<N>(ds_row + key, keys - key, aligned, ds);
  }
}

// The launch: two vectors per thread, up to kMostThreads threads per row; a block processes several
// short rows.
Shape ShapeOf(const ScoreRowsCall& call, void* stream) {
  Shape shape{.block_x = kWarp, .stream = stream};
  while (shape.block_x < kMostThreads && shape.block_x * 2 * kTogether < call.keys)
    shape.block_x *= 2;
  shape.block_y = shape.block_x < kFewestThreads ? kFewestThreads / shape.block_x : 1;
  const int64_t rows = call.tiles * call.heads * call.queries;
  shape.grid_x = (rows + shape.block_y - 1) / shape.block_y;
  return shape;
}

template <typename Data>
bool AreAligned(const void* data, int64_t stride) {
  return IsAligned<kTogether>(static_cast<const Data*>(data), stride, 0);
}

bool IsNothing(const ScoreRowsCall& call) {
  return call.tiles * call.heads * call.queries == 0 || call.keys == 0;
}

// Calls `launch` with a value of the kernels' 16-bit type, bf16 or fp16: that of the softmax
// weights p and, in the backward, of the scores' gradient ds.
template <typename F>
void ByNarrowType(Type type, const F& launch) {
  type == Type::kBf16 ? launch(Bf16{}) : launch(Half{});
}

}  // namespace

void LaunchScoreRows(const ScoreRowsCall& call, const ScoreSums& sums, void* stream) {
  if (IsNothing(call)) return;
  const bool aligned = call.has_room && AreAligned<float>(call.x, call.x_stride) &&
                       AreAligned<Half>(call.p, call.p_stride),
             held = call.keys <= kHeldScores;
  Shape shape = ShapeOf(call, stream);
  if (held) shape.shared_bytes = int64_t{shape.block_y} * Words(call.keys) * int64_t{sizeof(float)};
  ByNarrowType(call.type, [&](auto number) {
    Launch(shape, &Forward<decltype(number)>, call, sums, aligned, held);
  });
}

void LaunchScoreRowsBackward(const ScoreRowsCall& call, const ScoreGradients& gradients,
                             void* stream) {
  if (IsNothing(call)) return;
  const bool aligned = call.has_room && AreAligned<float>(call.x, call.x_stride) &&
                       AreAligned<Half>(call.p, call.p_stride) &&
                       AreAligned<float>(gradients.y, gradients.y_stride) &&
                       AreAligned<Half>(gradients.ds, gradients.ds_stride);
  ByNarrowType(call.type, [&](auto number) {
    Launch(ShapeOf(call, stream), &Backward<decltype(number)>, call, gradients, aligned);
  });
}

}  // namespace moonring::kernels::KERNEL_SIDE
