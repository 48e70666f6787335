#ifndef MOONRING_KERNELS_PACKED_CPU_UNPACK_H_
#define MOONRING_KERNELS_PACKED_CPU_UNPACK_H_

// Unpacking on a CPU: parts of a weight, for one thread each, compiled for each kind of CPU.
//
// A block of 64 codes of four bits has but 16 numbers: they are made first, scaled and rounded, and
// kept in a register, where codes look them up 16 or 32 at a time (with AVX-512; elsewhere in one
// register for each byte of a number). Cost: the memory's, for the 64 numbers that are written.

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace moonring::kernels {

struct FourBitParts {
  const uint8_t* codes;
  int64_t count;       // numbers of the weight
  const float* steps;  // 16
  // Block b's scale is absmax[b]; with absmax_codes, scale_steps[absmax_codes[b]] absmax[b / 256] +
  // mean.
  const float* absmax;
  const uint8_t* absmax_codes;  // or null
  const float* scale_steps;     // 256
  float mean;
  at::ScalarType dtype;
  void* out;
};

inline constexpr int64_t kFourBitBlock = 64, kScaleBlock = 256;

void UnpackFourBits(const FourBitParts& parts, int64_t begin, int64_t end);  // of blocks

struct EightBitParts {
  const int8_t* codes;
  int64_t width;        // of a row
  const float* absmax;  // of each row
  at::ScalarType dtype;
  void* out;
};

void UnpackEightBits(const EightBitParts& parts, int64_t begin, int64_t end);  // of numbers

// `count` numbers in a dtype of fp32, fp64, bf16 and fp16: to the nearest, ties to even.
void Narrow(const float* numbers, int64_t count, at::ScalarType dtype, void* out);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_CPU_UNPACK_H_
