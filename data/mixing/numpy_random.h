// numpy's random number generators, bit for bit, as far as data sets need them.
//
// NumpyRandom is numpy.random.default_rng(seed): SeedSequence (M. E. O'Neill's seed_seq_fe, a pool
// of four 32-bit words) seeds PCG64 (128-bit linear congruential generator, XSL-RR output; O'Neill,
// "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
// Generation", 2014). A 64-bit output gives two 32-bit draws, the lower half first.
// NumpyLegacyRandom is numpy.random after numpy.random.seed(seed): the Mersenne Twister.
// Permutation is a Fisher-Yates shuffle from the end, with indices from masked rejection of 32-bit
// draws (beyond 2^32 elements numpy uses 64 bits; here that is an error). Cost of Permutation:
// O(n).
#ifndef MOONRING_DATA_MIXING_NUMPY_RANDOM_H_
#define MOONRING_DATA_MIXING_NUMPY_RANDOM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace moonring::data {

// Functions that both generators derive from their 32-bit draws.
class NumpyDraws {
 public:
  virtual ~NumpyDraws() = default;

  virtual uint32_t Next32() = 0;

  // A uniform integer in [0, most].
  uint32_t UpTo(uint32_t most);

  // numpy's shuffle(), for at most 2^32 elements.
  template <class T>
  void Shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[UpTo(static_cast<uint32_t>(i - 1))]);
  }

  // numpy's permutation(n), for n <= 2^32.
  std::vector<int64_t> Permutation(int64_t n);
};

class NumpyRandom final : public NumpyDraws {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t Next64();
  uint32_t Next32() override;

  // numpy's random(): uniform in [0, 1), 53 bits.
  double NextDouble() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

  // numpy's integers(0, n), 1 <= n <= 2^32, by D. Lemire's multiplication method ("Fast Random
  // Integer Generation in an Interval", 2019), which rejects fewer draws than masking.
  uint32_t Below(uint64_t n);

  // The generator's state; set_state makes another generator continue from it.
  using State = std::array<uint64_t, 6>;
  State state() const;
  void set_state(const State& state);

 private:
  using Wide = unsigned __int128;

  void Step();

  Wide state_ = 0, increment_ = 0;
  std::optional<uint32_t> upper_half_;  // unused half of the last 64-bit output
};

class NumpyLegacyRandom final : public NumpyDraws {
 public:
  explicit NumpyLegacyRandom(uint32_t seed) : engine_(seed) {}

  uint32_t Next32() override { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_NUMPY_RANDOM_H_
