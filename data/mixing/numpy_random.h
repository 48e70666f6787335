// numpy's random numbers, as far as they are needed: the same on every machine, and in Python.
//
// NumpyRandom is numpy.random.default_rng(seed). SeedSequence (M. E. O'Neill's seed_seq_fe, a pool
// of four 32-bit words) seeds PCG64 (128-bit linear congruential, XSL-RR output; O'Neill, "PCG: A
// Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
// Generation", 2014). A 64-bit output serves two 32-bit draws, the lower half first.
// NumpyLegacyRandom is numpy.random after numpy.random.seed(seed): the Mersenne twister.
// Permutation is Fisher and Yates from the end, each place drawn by masked rejection of 32-bit
// draws (numpy takes 64 bits beyond 2^32 places; here that is an error). Cost of Permutation: O(n).
#ifndef MOONRING_DATA_MIXING_NUMPY_RANDOM_H_
#define MOONRING_DATA_MIXING_NUMPY_RANDOM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace moonring::data {

// What both make of their 32-bit draws.
class NumpyDraws {
 public:
  virtual ~NumpyDraws() = default;

  virtual uint32_t Next32() = 0;

  // Uniform in 0 .. most.
  uint32_t UpTo(uint32_t most);

  // shuffle(), of at most 2^32.
  template <class T>
  void Shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[UpTo(static_cast<uint32_t>(i - 1))]);
  }

  // permutation(n); n at most 2^32.
  std::vector<int64_t> Permutation(int64_t n);
};

class NumpyRandom final : public NumpyDraws {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t Next64();
  uint32_t Next32() override;

  // random(): uniform in [0, 1), 53 bits.
  double NextDouble() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

  // integers(0, n), n from 1 to 2^32: by D. Lemire's multiplication ("Fast Random Integer
  // Generation in an Interval", 2019), which rejects less than masks do.
  uint32_t Below(uint64_t n);

  // Where it stands; set_state makes another one go on from there.
  using State = std::array<uint64_t, 6>;
  State state() const;
  void set_state(const State& state);

 private:
  using Wide = unsigned __int128;

  void Step();

  Wide state_ = 0, increment_ = 0;
  std::optional<uint32_t> upper_half_;  // of the last 64-bit output
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
