#ifndef MOONRING_KERNELS_PACKED_STEPS_H_
#define MOONRING_KERNELS_PACKED_STEPS_H_

// What a code's numbers stand for, as fractions of the largest of a block.

#include <array>
#include <cstdint>

namespace moonring::kernels {

// Of four bits: steps by code, and how a fraction finds its code: bounds halfway between steps from
// the least on, and the codes in that order.
struct FourBitSteps {
  std::array<float, 16> steps;
  std::array<float, 15> bounds;
  std::array<uint8_t, 16> order;
};

// NF4: the quantiles of arXiv 2305.14314's appendix E. FP4: 0, 1/192, 1/6, 1/4, 1/3, 1/2, 2/3 and
// 1, by bits of exponent and mantissa, and the same below zero.
const FourBitSteps& Nf4Steps();
const FourBitSteps& Fp4Steps();

// The dynamic code of 8 bits, from the least on: for e = 0..6 the middles of 2^e equal parts of
// [0.1, 1], times 10^(e - 6); the same below zero; 0; and 1.
const std::array<float, 256>& DynamicSteps();

// The nearest of DynamicSteps, looked up as bitsandbytes does on a CPU: 65536 places over [-1, 1],
// at each the first code whose upper bound is no lower.
class DynamicPlaces {
 public:
  DynamicPlaces();
  uint8_t CodeOf(float fraction) const;  // within [-1, 1]; NaN is as -1

 private:
  std::array<uint8_t, 65536> codes_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_STEPS_H_
