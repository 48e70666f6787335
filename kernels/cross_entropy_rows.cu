#include "kernels/cross_entropy_rows_launch.h"

#include <limits>

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kMostWarps = 16;

template <typename W>
constexpr W kLowest = std::numeric_limits<W>::lowest();
template <typename W>
constexpr W kInfinity = std::numeric_limits<W>::infinity();

// Running statistics of the part of a row's z that a thread has read; they are joined for a warp,
// then for the block.
template <typename W>
struct RowState {
  W max, sum;  // of z; of exp(z - max)
  W total;     // of z
  int best;    // the lowest id whose z is max
};

// The number that is subtracted before exp: max, or a finite number if max is -inf, because -inf -
// -inf is NaN.
template <typename W>
__device__ __forceinline__ W Base(W max) {
  return max > kLowest<W> ? max : kLowest<W>;
}

template <typename W>
__device__ RowState<W> Join(const RowState<W>& a, const RowState<W>& b) {
  const W max = a.max > b.max ? a.max : b.max, base = Base(max);
  const bool of_a = a.max > b.max || (a.max == b.max && a.best < b.best);
  return {max, a.sum * std::exp(a.max - base) + b.sum * std::exp(b.max - base), a.total + b.total,
          of_a ? a.best : b.best};
}

// Joins the states of the block's threads; the result is valid in thread 0.
template <typename W>
__device__ RowState<W> JoinBlock(RowState<W> state) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const W max = __shfl_xor_sync(kWholeWarp, state.max, lanes),
            sum = __shfl_xor_sync(kWholeWarp, state.sum, lanes),
            total = __shfl_xor_sync(kWholeWarp, state.total, lanes);
    const int best = __shfl_xor_sync(kWholeWarp, state.best, lanes);
    state = Join(state, {max, sum, total, best});
  }
  KERNEL_SHARED(RowState<W>, of_warp, kMostWarps);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = state;
  __syncthreads();
  if (threadIdx.x != 0) return state;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  for (int i = 1; i < warps; ++i) state = Join(state, of_warp[i]);
  return state;
}

template <typename W>
__device__ __forceinline__ W Capped(W score, W softcap) {
  return softcap == W(0) ? score : softcap * std::tanh(score / softcap);
}

template <typename T>
__global__ void Forward(ScoreRows rows, bool aligned, RowResults results) {
  using W = WideOf<T>;
  constexpr int N = kAtOnce<T>;
  const int64_t row = blockIdx.x, vocabulary = rows.vocabulary;
  const W softcap = static_cast<W>(rows.softcap);
  const T* const scores = static_cast<const T*>(rows.scores_RV) + row * rows.stride;
  RowState<W> state = {-kInfinity<W>, W(0), W(0), static_cast<int>(vocabulary) - 1};
  for (int64_t first = threadIdx.x * N; first < vocabulary; first += blockDim.x * N) {
    const int64_t left = vocabulary - first;
    W z[N];
    Load<N>(scores + first, left, aligned, z);
    W max = state.max;
    KERNEL_UNROLL for (int i = 0; i < N; ++i) {
      z[i] = i < left ? Capped(z[i], softcap) : -kInfinity<W>;
      if (i < left) state.total += z[i];
      if (z[i] > max) {
        max = z[i];
        state.best = static_cast<int>(first) + i;
      }
    }
    const W base = Base(max);
    if (max > state.max) {
      state.sum *= std::exp(state.max - base);
      state.max = max;
    }
    KERNEL_UNROLL for (int i = 0; i < N; ++i) state.sum += std::exp(z[i] - base);
  }
  state = JoinBlock(state);
  if (threadIdx.x != 0) return;
  static_cast<W*>(results.picked_R)[row] = Capped(Wide(scores[rows.targets_R[row]]), softcap);
  static_cast<W*>(results.logsumexp_R)[row] = std::log(state.sum) + Base(state.max);
  if (results.mean_R != nullptr)
    static_cast<W*>(results.mean_R)[row] = state.total / static_cast<W>(vocabulary);
  if (results.greedy_R != nullptr) results.greedy_R[row] = state.best;
}

template <typename T>
__global__ void Backward(ScoreRows rows, bool aligned, double smoothing, const void* logsumexp_R) {
  using W = WideOf<T>;
  constexpr int N = kAtOnce<T>;
  const int64_t row = blockIdx.x, vocabulary = rows.vocabulary, target = rows.targets_R[row];
  const W softcap = static_cast<W>(rows.softcap),
          logsumexp = static_cast<const W*>(logsumexp_R)[row],
          of_target = static_cast<W>(1.0 - smoothing),
          of_each = static_cast<W>(smoothing / static_cast<double>(vocabulary));
  T* const scores = static_cast<T*>(rows.scores_RV) + row * rows.stride;
  for (int64_t first = threadIdx.x * N; first < vocabulary; first += blockDim.x * N) {
    W s[N];
    Load<N>(scores + first, vocabulary - first, aligned, s);
    KERNEL_UNROLL for (int i = 0; i < N; ++i) {
      const W part = softcap == W(0) ? W(0) : std::tanh(s[i] / softcap),
              z = softcap == W(0) ? s[i] : softcap * part;
      const W gradient =
          std::exp(z - logsumexp) - of_each - (first + i == target ? of_target : W(0));
      s[i] = gradient * (W(1) - part * part);
    }
    Store<N>(scores + first, vocabulary - first, aligned, s);
  }
}

// Whether rows are aligned and each row's last 16-byte word may be read and written whole.
// (IsAligned is called with length 0, because has_room checks the row's length.)
template <typename T>
bool AreAligned(const ScoreRows& rows) {
  const bool has_room = rows.vocabulary % kAtOnce<T> == 0 || rows.may_write_gaps;
  return has_room && IsAligned<kAtOnce<T>>(static_cast<const T*>(rows.scores_RV), rows.stride, 0);
}

// The launch: two vectors per thread, so that short rows have no idle warps, and at most kMostWarps
// warps.
template <typename T>
Shape ShapeOf(const ScoreRows& rows, void* stream) {
  int threads = kWarp;
  while (threads < kMostWarps * kWarp && threads * 2 * kAtOnce<T> < rows.vocabulary) threads *= 2;
  return {.grid_x = rows.rows, .block_x = threads, .stream = stream};
}

template <typename T>
void LaunchTyped(const ScoreRows& rows, const RowResults& results, void* stream) {
  Launch(ShapeOf<T>(rows, stream), &Forward<T>, rows, AreAligned<T>(rows), results);
}

template <typename T>
void LaunchTyped(const ScoreRows& rows, double smoothing, const void* logsumexp_R, void* stream) {
  Launch(ShapeOf<T>(rows, stream), &Backward<T>, rows, AreAligned<T>(rows), smoothing, logsumexp_R);
}

template <typename... Arguments>
void LaunchByType(const ScoreRows& rows, const Arguments&... arguments) {
  if (rows.rows == 0 || rows.vocabulary == 0) return;
  ByType(rows.type, [&](auto number) { LaunchTyped<decltype(number)>(rows, arguments...); });
}

}  // namespace

void LaunchCrossEntropyRows(const ScoreRows& rows, const RowResults& results, void* stream) {
  LaunchByType(rows, results, stream);
}

void LaunchCrossEntropyRowsBackward(const ScoreRows& rows, double smoothing,
                                    const void* logsumexp_R, void* stream) {
  LaunchByType(rows, smoothing, logsumexp_R, stream);
}

}  // namespace moonring::kernels::KERNEL_SIDE
