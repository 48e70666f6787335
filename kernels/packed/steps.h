#ifndef MOONRING_KERNELS_PACKED_STEPS_H_
#define MOONRING_KERNELS_PACKED_STEPS_H_

// The values of the quantization codes, as fractions of a block's largest absolute value.

#include <array>
#include <cstdint>

namespace moonring::kernels {

// A four-bit code: `steps` has the value of each code; `bounds` has the midpoints between
// neighbouring values, ascending; `order` has the codes in ascending order of their values.
struct FourBitSteps {
  std::array<float, 16> steps;
  std::array<float, 15> bounds;
  std::array<uint8_t, 16> order;
};

// NF4: the quantiles of arXiv 2305.14314's appendix E. FP4: 0, 1/192, 1/6, 1/4, 1/3, 1/2, 2/3 and
// 1, by exponent and mantissa bits, and their negatives.
const FourBitSteps& Nf4Steps();
const FourBitSteps& Fp4Steps();

// The values of the dynamic 8-bit code, ascending: for e = 0..6 the midpoints of 2^e equal
// intervals of [0.1, 1], times 10^(e - 6); their negatives; 0; and 1.
const std::array<float, 256>& DynamicSteps();

// Finds the nearest of DynamicSteps in the same way as bitsandbytes on a CPU: a table of 65536
// points over [-1, 1], where each point has the first code whose upper bound is at or above the
// point.
class DynamicPlaces {
 public:
  DynamicPlaces();
  uint8_t CodeOf(float fraction) const;  // within [-1, 1]; NaN counts as -1

 private:
  std::array<uint8_t, 65536> codes_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_STEPS_H_
