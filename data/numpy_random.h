// numpy.random.default_rng(seed), as far as it is needed: the same numbers on every machine, and in Python.
//
// SeedSequence (M. E. O'Neill's seed_seq_fe, a pool of four 32-bit words) seeds PCG64 (128-bit linear congruential, XSL-RR output;
// O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014). A 64-bit
// output serves two 32-bit draws, the lower half first. Permutation is Fisher and Yates from the end, each place drawn by masked
// rejection of 32-bit draws (numpy takes 64 bits beyond 2^32 places; here that is an error). Cost of Permutation: O(n).
#ifndef MOONRING_DATA_NUMPY_RANDOM_H_
#define MOONRING_DATA_NUMPY_RANDOM_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace moonring::data {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  uint64_t Next64();
  uint32_t Next32();

  // Uniform in 0 .. most.
  uint32_t UpTo(uint32_t most);

  // Generator.permutation(n); n at most 2^32.
  std::vector<int64_t> Permutation(int64_t n);

 private:
  using Wide = unsigned __int128;

  void Step();

  Wide state_ = 0, increment_ = 0;
  std::optional<uint32_t> upper_half_;  // of the last 64-bit output
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_NUMPY_RANDOM_H_
