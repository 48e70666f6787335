#ifndef MOONRING_KERNELS_PHILOX_WORDS_H_
#define MOONRING_KERNELS_PHILOX_WORDS_H_

// Philox4x32-10 for .cu files: the four random words of a counter under a key
// (kernels/random/counter_random.h has the definition and its source).

#include <cstdint>

#include "kernels/language.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kWords = 4;

__device__ __forceinline__ uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

__device__ __forceinline__ void PhiloxWords(uint64_t key, uint64_t low, uint64_t high,
                                            uint32_t (&words)[kWords]) {
  uint32_t c0 = static_cast<uint32_t>(low), c1 = High(low), c2 = static_cast<uint32_t>(high),
           c3 = High(high);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = High(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = High(p1) ^ c1 ^ k0;
    c2 = High(p0) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_PHILOX_WORDS_H_
