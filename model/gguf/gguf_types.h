#ifndef MOONRING_MODEL_GGUF_GGUF_TYPES_H_
#define MOONRING_MODEL_GGUF_GGUF_TYPES_H_

// The element types of GGUF tensors. A row is divided into blocks of `elements` elements, each
// stored in `bytes` bytes:
//
//   F32, F16, BF16                                  one element
//   Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4     32 elements    gguf_blocks.h has the blocks'
//                                                   formats
//   Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS            256 elements
//
// F32, F16, BF16 and Q8_0 can also be written. For any other type only name and size are known, so
// that a file with such tensors can be checked, and error messages can name the type. (Q8_1 and
// Q8_K are types of activations in inference: no file has them.)

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::model {

struct GgufType {
  uint32_t id;
  const char* name;
  int64_t elements, bytes;  // per block
  // Dequantises `blocks` blocks of this type, which may be unaligned. Null if the type cannot be
  // read.
  void (*dequantise)(const GgufType& type, const char* in, int64_t blocks, float* out);

  // Quantises `blocks` blocks of this type. Null if the type cannot be written.
  void (*quantise)(const GgufType& type, const float* in, int64_t blocks, char* out) = nullptr;

  bool readable() const { return dequantise != nullptr; }
  bool writable() const { return quantise != nullptr; }
};

// Finds a type by its number in GGUF files, or by its name ("Q8_0"). Null if it is unknown.
const GgufType* FindGgufType(uint32_t id);
const GgufType* FindGgufType(absl::string_view name);

// An error message: "type IQ2_XS is not supported yet (F32, F16, ... are)".
std::string UnreadableGgufType(const GgufType& type);

// Dequantises `blocks` blocks at `in` (any alignment) to fp32 at `out`. `type` must be readable.
// Runs on ATen's threads.
void Dequantise(const GgufType& type, const char* in, int64_t blocks, float* out);
// Quantises fp32 at `in` to blocks at `out`; each number or scale is rounded once. `type` must be
// writable.
void Quantise(const GgufType& type, const float* in, int64_t blocks, char* out);

// Whether a number is still finite after it is quantised and dequantised. False for NaN and
// infinities, and for a magnitude above the type's limit: 65504 for F16, 127 times that for Q8_0.
bool StaysFinite(const GgufType& type, float number);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_TYPES_H_
