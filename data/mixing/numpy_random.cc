#include "data/mixing/numpy_random.h"

#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

namespace moonring::data {
namespace {

constexpr int kPool = 4;

// The hash of numpy's SeedSequence; its multiplier changes with each call.
class Hash {
 public:
  Hash(uint32_t initial, uint32_t multiplier) : constant_(initial), multiplier_(multiplier) {}
  uint32_t operator()(uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ (value >> 16);
  }

 private:
  uint32_t constant_, multiplier_;
};

std::array<uint32_t, kPool> MixEntropy(uint64_t seed) {
  Hash hash(0x43b0d7e5u, 0x931e8875u);
  std::array<uint32_t, kPool> pool = {static_cast<uint32_t>(seed),
                                      static_cast<uint32_t>(seed >> 32), 0, 0};
  for (uint32_t& word : pool) word = hash(word);
  for (int from = 0; from < kPool; ++from) {
    for (int to = 0; to < kPool; ++to) {
      if (from == to) continue;
      const uint32_t mixed = 0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from]);
      pool[to] = mixed ^ (mixed >> 16);
    }
  }
  return pool;
}

std::array<uint64_t, 4> GenerateState(uint64_t seed) {
  const std::array<uint32_t, kPool> pool = MixEntropy(seed);
  Hash hash(0x8b51f9ddu, 0x58f38dedu);
  std::array<uint64_t, 4> state;
  for (int i = 0; i < 4; ++i) {
    const uint64_t low = hash(pool[2 * i % kPool]);
    state[i] = low | static_cast<uint64_t>(hash(pool[(2 * i + 1) % kPool])) << 32;
  }
  return state;
}

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::array<uint64_t, 4> words = GenerateState(seed);
  increment_ = (Wide{words[2]} << 64 | words[3]) << 1 | 1;
  Step();
  state_ += Wide{words[0]} << 64 | words[1];
  Step();
}

void NumpyRandom::Step() {
  constexpr Wide kMultiplier = Wide{0x2360ed051fc65da4ull} << 64 | 0x4385df649fccf645ull;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t NumpyRandom::Next64() {
  Step();
  return std::rotr(static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_),
                   static_cast<int>(state_ >> 122));
}

uint32_t NumpyRandom::Next32() {
  if (upper_half_.has_value()) return *std::exchange(upper_half_, std::nullopt);
  const uint64_t both = Next64();
  upper_half_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

uint32_t NumpyRandom::Below(uint64_t n) {
  TORCH_CHECK(n >= 1 && n <= uint64_t{1} << 32, "one of ", n, " numbers; expected 1 to 2^32");
  if (n == 1) return 0;
  uint64_t product = Next32() * n;
  const uint32_t uneven = static_cast<uint32_t>(
      (uint64_t{1} << 32) % n);  // rejection threshold that keeps the result unbiased
  while (static_cast<uint32_t>(product) < uneven) product = Next32() * n;
  return static_cast<uint32_t>(product >> 32);
}

NumpyRandom::State NumpyRandom::state() const {
  const auto high = [](Wide value) { return static_cast<uint64_t>(value >> 64); };
  return {high(state_),
          static_cast<uint64_t>(state_),
          high(increment_),
          static_cast<uint64_t>(increment_),
          upper_half_.has_value(),
          upper_half_.value_or(0)};
}

void NumpyRandom::set_state(const State& state) {
  state_ = Wide{state[0]} << 64 | state[1];
  increment_ = Wide{state[2]} << 64 | state[3];
  upper_half_ = state[4] != 0 ? std::optional(static_cast<uint32_t>(state[5])) : std::nullopt;
}

uint32_t NumpyDraws::UpTo(uint32_t most) {
  if (most == 0) return 0;
  const uint32_t mask = static_cast<uint32_t>(std::bit_ceil(uint64_t{most} + 1) - 1);
  uint32_t value;
  do value = Next32() & mask;
  while (value > most);
  return value;
}

std::vector<int64_t> NumpyDraws::Permutation(int64_t n) {
  TORCH_CHECK(n >= 0 && n <= int64_t{1} << 32, "a permutation of ", n,
              " places; expected 0 to 2^32");
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  Shuffle(order);
  return order;
}

}  // namespace moonring::data
