#ifndef MOONRING_KERNELS_PACKED_CPU_UNPACK_H_
#define MOONRING_KERNELS_PACKED_CPU_UNPACK_H_

// Unpacks quantized weights on the CPU, a range of a weight per call (one per thread), compiled for
// several kinds of CPU.
//
// A block of 64 four-bit codes has only 16 different numbers. These are computed first, scaled and
// rounded, and kept in a register in which codes are looked up 16 or 32 at a time (with AVX-512; on
// other CPUs in one register for each byte of a number). The cost is that of writing the 64 numbers
// to memory.

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace moonring::kernels {

struct FourBitParts {
  const uint8_t* codes;
  int64_t count;       // number of elements of the weight
  const float* steps;  // 16
  // The scale of block b is absmax[b]. If absmax_codes is not null (double quantization), it is
  // scale_steps[absmax_codes[b]] absmax[b / 256] + mean.
  const float* absmax;
  const uint8_t* absmax_codes;  // or null
  const float* scale_steps;     // 256
  float mean;
  at::ScalarType dtype;
  void* out;
};

inline constexpr int64_t kFourBitBlock = 64, kScaleBlock = 256;

void UnpackFourBits(const FourBitParts& parts, int64_t begin, int64_t end);  // range of blocks

struct EightBitParts {
  const int8_t* codes;
  int64_t width;        // per row
  const float* absmax;  // one per row
  at::ScalarType dtype;
  void* out;
};

void UnpackEightBits(const EightBitParts& parts, int64_t begin, int64_t end);  // range of elements

// Converts `count` numbers to `dtype` (fp32, fp64, bf16 or fp16), rounding to nearest, ties to
// even.
void Narrow(const float* numbers, int64_t count, at::ScalarType dtype, void* out);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_CPU_UNPACK_H_
