#include "kernels/random/counter_random.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include "base/memory/to_device.h"
#include "base/text/fnv1a.h"
#include "kernels/choice.h"
#include "kernels/philox.h"

namespace moonring::kernels {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;  // Philox4x32's constants
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr float kUnit = 0x1.0p-24f;
constexpr int64_t kLanes = 16;  // counters processed in parallel, in vector registers

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// Applies Philox to kLanes counters in place. Inlined, so that it is compiled for its caller's
// vector registers.
[[gnu::always_inline]] inline void Philox(uint64_t key, uint32_t (&c)[4][kLanes]) {
  uint32_t k0 = Low(key), k1 = High(key);
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0][i],
                     p1 = static_cast<uint64_t>(kMultiplier1) * c[2][i];
      c[0][i] = High(p1) ^ c[1][i] ^ k0;
      c[2][i] = High(p0) ^ c[3][i] ^ k1;
      c[1][i] = Low(p1);
      c[3][i] = Low(p0);
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
}

// Fills a row with `width` numbers of one identity.
[[gnu::always_inline]] inline void FillRowInline(uint64_t key, uint64_t identity, int64_t width,
                                                 float* row) {
  for (int64_t begin = 0; begin < width; begin += 4 * kLanes) {
    uint32_t c[4][kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint64_t block = begin / 4 + i;
      c[0][i] = Low(block);
      c[1][i] = High(block);
      c[2][i] = Low(identity);
      c[3][i] = High(identity);
    }
    Philox(key, c);
    float numbers[4 * kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      for (int64_t word = 0; word < 4; ++word)
        numbers[4 * i + word] = static_cast<float>(static_cast<int32_t>(c[word][i] >> 8)) * kUnit;
    }
    std::copy_n(numbers, std::min(4 * kLanes, width - begin), row + begin);
  }
}

using Filler = void (*)(uint64_t key, uint64_t identity, int64_t width, float* row);

void FillRowAnywhere(uint64_t key, uint64_t identity, int64_t width, float* row) {
  FillRowInline(key, identity, width, row);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void FillRowAvx2(uint64_t key, uint64_t identity, int64_t width,
                                         float* row) {
  FillRowInline(key, identity, width, row);
}
#endif

Filler FillerOfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return FillRowAvx2;
#endif
  return FillRowAnywhere;
}

// Counter words as int64 tensors [2, rows, blocks], for devices with 64-bit multiplication: the
// word is the low 32 bits of each element. The two halves are views [2, rows, blocks] of int32.
// Signed and unsigned multiplication give the same 64 bits.
at::Tensor LowHalf(const at::Tensor& words) {
  return words.view(at::kInt).slice(2, 0, std::numeric_limits<int64_t>::max(), 2);
}
at::Tensor HighHalf(const at::Tensor& words) {
  return words.view(at::kInt).slice(2, 1, std::numeric_limits<int64_t>::max(), 2);
}

// The keys of all rounds, [rounds, 2, 1, 1].
at::Tensor KeysOfRounds(uint64_t key, const c10::Device& device) {
  std::vector<int32_t> keys;
  uint32_t k0 = Low(key), k1 = High(key);
  for (int round = 0; round < kRounds; ++round) {
    keys.insert(keys.end(), {static_cast<int32_t>(k0), static_cast<int32_t>(k1)});
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return base::ToDevice(keys, device).view({kRounds, 2, 1, 1});
}

constexpr int64_t kNumbersAtATime = int64_t{1}
                                    << 24;  // by tensor operations: 16 bytes of temporaries each

// CounterUniformByTensors for a few rows, into `result`. Four operators per round: the words c0 and
// c2 are in one tensor x, and (c1, c3) are the low halves of the previous products,
//   p = x * (m0, m1);  x = (high p1 ^ c1 ^ k0, high p0 ^ c3 ^ k1)
void FillByTensors(const at::Tensor& keys, const at::Tensor& multipliers,
                   const at::Tensor& identity_T, const at::Tensor& result) {
  const int64_t rows = result.size(0), width = result.size(1), blocks = (width + 3) / 4;
  at::Tensor x = at::zeros({2, rows, blocks}, identity_T.options());
  const at::Tensor low = LowHalf(x);
  low[0].copy_(at::arange(blocks, identity_T.options()));
  const at::Tensor identity = identity_T.contiguous().view(at::kInt).view({rows, 2, 1});
  low[1].copy_(identity.select(1, 0));
  // Stands in for the products of a previous round in the first round: c1 (the high word of the
  // identity) and c3 are stored where the low halves of p1 and p0 will be.
  at::Tensor before = at::zeros_like(x), product = at::empty_like(x);
  LowHalf(before)[0].copy_(identity.select(1, 1));
  for (int round = 0; round < kRounds; ++round) {
    at::mul_out(product, x, multipliers);
    const at::Tensor high = HighHalf(product), old = LowHalf(before);
    for (const int64_t word : {0, 1}) {
      at::Tensor next = low[word];
      at::bitwise_xor_out(next, high[1 - word], old[1 - word]);
    }
    low.bitwise_xor_(keys[round]);
    std::swap(product, before);
  }
  const at::Tensor odd = LowHalf(before);
  const at::Tensor words =
      at::stack({low[0], odd[1], low[1], odd[0]}, 2).view({rows, 4 * blocks}).narrow(1, 0, width);
  result.copy_(words.__rshift__(8).bitwise_and_(0xFFFFFF)).mul_(kUnit);
}

}  // namespace

uint64_t CounterKey(uint64_t seed, uint64_t step, absl::string_view module) {
  const uint64_t name = base::Fnv1a(module);
  uint32_t c[4][kLanes] = {};
  c[0][0] = Low(step);
  c[1][0] = High(step);
  c[2][0] = Low(name);
  c[3][0] = High(name);
  Philox(seed, c);
  return static_cast<uint64_t>(c[1][0]) << 32 | c[0][0];
}

at::Tensor CounterUniform(uint64_t key, const at::Tensor& identity_T, int64_t width) {
  TORCH_CHECK(identity_T.dim() == 1 && identity_T.scalar_type() == at::kLong,
              "random numbers: identities of shape ", identity_T.sizes(), " in ",
              identity_T.scalar_type(), ", expected int64 [T]");
  TORCH_CHECK(width >= 0, "random numbers: ", width, " a token");
  at::NoGradGuard no_grad;
  if (!identity_T.is_cpu()) {
    return kernels::UseKernel(identity_T, kernels::kCounterUniform)
               ? UniformByKernel(key, identity_T, width)
               : internal::CounterUniformByTensors(key, identity_T, width);
  }
  const at::Tensor identities = identity_T.contiguous();
  at::Tensor result = at::empty({identities.size(0), width}, at::kFloat);
  const Filler fill_row = FillerOfThisMachine();
  const int64_t* identity = identities.const_data_ptr<int64_t>();
  float* row = result.mutable_data_ptr<float>();
  at::parallel_for(0, identities.size(0), std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t t = begin; t < end; ++t)
                       fill_row(key, static_cast<uint64_t>(identity[t]), width, row + t * width);
                   });
  return result;
}

at::Tensor internal::CounterUniformByTensors(uint64_t key, const at::Tensor& identity_T,
                                             int64_t width) {
  const int64_t rows = identity_T.size(0),
                at_a_time = std::max<int64_t>(1, kNumbersAtATime / std::max<int64_t>(width, 1));
  const at::Tensor keys = KeysOfRounds(key, identity_T.device());
  const at::Tensor multipliers =
      base::ToDevice(std::vector<int64_t>{kMultiplier0, kMultiplier1}, identity_T.device())
          .view({2, 1, 1});
  const at::Tensor result = at::empty({rows, width}, identity_T.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < rows; begin += at_a_time) {
    const int64_t count = std::min(at_a_time, rows - begin);
    FillByTensors(keys, multipliers, identity_T.narrow(0, begin, count),
                  result.narrow(0, begin, count));
  }
  return result;
}

at::Tensor InitialUniform(uint64_t seed, absl::string_view name, at::IntArrayRef sizes) {
  at::Tensor result = at::empty(sizes, at::kFloat);
  FillRowInline(CounterKey(seed, std::numeric_limits<uint64_t>::max(), name), /*identity=*/0,
                result.numel(), result.mutable_data_ptr<float>());
  return result;
}

}  // namespace moonring::kernels
