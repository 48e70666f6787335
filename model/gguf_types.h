#ifndef MOONRING_MODEL_GGUF_TYPES_H_
#define MOONRING_MODEL_GGUF_TYPES_H_

// The element types of GGUF tensors. A row is cut into blocks of `elements`, each stored in `bytes`:
//
//   F32, F16, BF16   one element
//   Q8_0             32 elements: fp16 d, 32 x int8 q            x = d q
//   Q4_1             32 elements: fp16 d, fp16 m, 16 x 2 nibbles  x = d q + m; the low nibbles are elements 0..15, the high 16..31
//
// The other types are known by name and size only, so that a file that has them can be checked and the type named.

#include <cstdint>
#include <string>

namespace moonring::model {

struct GgufType {
  uint32_t id;
  const char* name;
  int64_t elements, bytes;  // of a block
  bool readable;
};

const GgufType* FindGgufType(uint32_t id);  // null where the number is unknown

// "type Q4_K is not supported yet (F32, F16, ... are)"
std::string UnreadableGgufType(const GgufType& type);

// Dequantises `blocks` blocks at `in` (any alignment) to fp32 at `out`. `type` must be readable. Threads: ATen's.
void Dequantise(const GgufType& type, const char* in, int64_t blocks, float* out);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TYPES_H_
