#include "kernels/adamw_launch.h"

#include <cstring>
#include <type_traits>

#include "kernels/language.h"
#include "kernels/philox_words.h"
#include "kernels/tensor_table.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 256, kTogether = kWords;
constexpr int64_t kPiece = 1 << 14;

using Table = TensorTable<AdamWTensor>;

// The factors in the dtype of the computation; differences are computed in fp64.
template <typename W>
struct Factors {
  W keep_weight;             // 1 - lr decay
  W of_gradient;             // 1 - b1
  W keep_square, of_square;  // b2, 1 - b2
  W epsilon;
  double lr, beta1, beta2;  // for the terms that depend on t
};

template <typename W>
Factors<W> FactorsOf(const AdamWNumbers& numbers) {
  return {.keep_weight = static_cast<W>(1.0 - numbers.lr * numbers.weight_decay),
          .of_gradient = static_cast<W>(1.0 - numbers.beta1),
          .keep_square = static_cast<W>(numbers.beta2),
          .of_square = static_cast<W>(1.0 - numbers.beta2),
          .epsilon = static_cast<W>(numbers.epsilon),
          .lr = numbers.lr,
          .beta1 = numbers.beta1,
          .beta2 = numbers.beta2};
}

// Stochastic rounding to bf16, in place: adds 16 random bits below the mantissa, then truncates
// them, so the result is right on average. `place`: the index of numbers[0] in the whole weight.
__device__ __forceinline__ void RoundOnAverage(uint64_t key, int64_t place,
                                               float (&numbers)[kTogether]) {
  constexpr int64_t kRow = 64;
  uint32_t words[2 * kWords] = {};
  const auto draw = [&](int64_t first, int into) {
    uint32_t four[kWords];
    PhiloxWords(key, static_cast<uint64_t>(first % kRow / kWords),
                static_cast<uint64_t>(first / kRow), four);
    KERNEL_UNROLL for (int i = 0; i < kWords; ++i) words[into + i] = four[i];
  };
  const int past = static_cast<int>(place % kWords);
  draw(place - past, 0);
  if (past != 0) draw(place - past + kWords, kWords);
  KERNEL_UNROLL for (int i = 0; i < kTogether; ++i) {
    uint32_t word = words[i];  // words[i + past], without dynamic register indexing
    KERNEL_UNROLL for (int j = 1; j < kWords; ++j) word = j == past ? words[i + j] : word;
    uint32_t bits;
    std::memcpy(&bits, &numbers[i], sizeof(bits));
    bits = (bits + (word >> 16)) & 0xFFFF0000u;
    std::memcpy(&numbers[i], &bits, sizeof(bits));
  }
}

template <typename Weight, typename State>
__global__ void Step(KERNEL_TABLE(Table) table, Factors<WideOf<State>> factors) {
  using W = WideOf<State>;
  constexpr int N = kTogether;
  KERNEL_SHARED(W, of_step, 2);  // lr / (1 - b1^t), 1 / sqrt(1 - b2^t)
  const int row = table.RowOf(blockIdx.x);
  const AdamWTensor tensor = table.rows[row];
  if (threadIdx.x == 0) {
    const double step = *tensor.step;
    of_step[0] = static_cast<W>(factors.lr / (1.0 - std::pow(factors.beta1, step)));
    of_step[1] = static_cast<W>(1.0 / std::sqrt(1.0 - std::pow(factors.beta2, step)));
  }
  __syncthreads();
  const W rate = of_step[0], of_root = of_step[1];
  const int64_t begin = (blockIdx.x - table.first_piece[row]) * kPiece, left = tensor.count - begin,
                count = left < kPiece ? left : kPiece;
  Weight* const weight = static_cast<Weight*>(tensor.weight) + begin;
  State *const mean = static_cast<State*>(tensor.mean) + begin, *const square = static_cast<State*>(
                                                                                    tensor.square) +
                                                                                begin;
  const W* const gradient = static_cast<const W*>(tensor.gradient) + begin;
  for (int64_t i = threadIdx.x * N; i < count; i += kThreads * N) {
    const int64_t rest = count - i;
    const bool whole = tensor.aligned && rest >= N;
    W w[N], g[N], m[N], v[N];
    Load<N>(weight + i, rest, whole, w);
    Load<N>(gradient + i, rest, whole, g);
    Load<N>(mean + i, rest, whole, m);
    Load<N>(square + i, rest, whole, v);
    KERNEL_UNROLL for (int k = 0; k < N; ++k) {
      m[k] += factors.of_gradient * (g[k] - m[k]);
      v[k] = factors.keep_square * v[k] + factors.of_square * g[k] * g[k];
      const W divisor = std::sqrt(v[k]) * of_root + factors.epsilon;
      w[k] = w[k] * factors.keep_weight - rate * (m[k] / divisor);
    }
    if constexpr (std::is_same_v<State, Bf16>)
      RoundOnAverage(tensor.key, tensor.place + begin + i, v);
    Store<N>(weight + i, rest, whole, w);
    Store<N>(mean + i, rest, whole, m);
    Store<N>(square + i, rest, whole, v);
  }
}

template <typename Weight, typename State>
void Run(std::vector<AdamWTensor>& tensors, const AdamWNumbers& numbers, void* stream) {
  for (AdamWTensor& tensor : tensors) {
    const auto fits = [](const void* data, auto type) {
      return IsAligned<kTogether>(static_cast<const decltype(type)*>(data), 0, 0);
    };
    tensor.aligned = fits(tensor.weight, Weight{}) && fits(tensor.mean, State{}) &&
                     fits(tensor.square, State{}) && fits(tensor.gradient, WideOf<State>{});
  }
  const Factors<WideOf<State>> factors = FactorsOf<WideOf<State>>(numbers);
  ForEachTable(tensors, kPiece, [&](const Table& table, int64_t pieces, int64_t) {
    if (pieces == 0) return;
    Launch({.grid_x = pieces, .block_x = kThreads, .stream = stream}, Step<Weight, State>, table,
           factors);
  });
}

}  // namespace

bool AdamWTakes(Type weight, Type state) {
  const auto narrow = [](Type type) { return type == Type::kFloat || type == Type::kBf16; };
  return (narrow(weight) && narrow(state)) || (weight == Type::kDouble && state == Type::kDouble);
}

void LaunchAdamW(Type weight, Type state, std::vector<AdamWTensor> tensors,
                 const AdamWNumbers& numbers, void* stream) {
  if (weight == Type::kDouble) return Run<double, double>(tensors, numbers, stream);
  const bool bf16 = state == Type::kBf16;
  if (weight == Type::kBf16)
    return bf16 ? Run<Bf16, Bf16>(tensors, numbers, stream)
                : Run<Bf16, float>(tensors, numbers, stream);
  return bf16 ? Run<float, Bf16>(tensors, numbers, stream)
              : Run<float, float>(tensors, numbers, stream);
}

}  // namespace moonring::kernels::KERNEL_SIDE
