#ifndef MOONRING_MODEL_FILES_MXFP4_H_
#define MOONRING_MODEL_FILES_MXFP4_H_

// Weights in four bits (OCP Microscaling Formats 1.0, MXFP4), the format of the experts in
// gpt-oss's files. For a tensor NAME [E, 32 G, R] a file has
//
//   NAME_blocks  U8 [E, R, G, 16]   two numbers per byte, the lower four bits first: e2m1
//   NAME_scales  U8 [E, R, G]       the exponent of two for 32 numbers, plus 127: e8m0
//
//   NAME[e, 32 g + i, r] = value of the i-th four bits x 2^(scale - 127)
//
// The WeightStore presents the tensor as NAME in bf16, which represents every such number exactly
// except the smallest ones. Memory to read NAME: the tensor, and 1/E of it as a temporary.

#include <memory>

#include "absl/status/statusor.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// Wraps `store` and replaces each pair NAME_blocks, NAME_scales by NAME. INVALID_ARGUMENT if one
// tensor of a pair is missing, or has another shape or dtype than above.
absl::StatusOr<std::unique_ptr<WeightStore>> ReadMxfp4(std::unique_ptr<WeightStore> store);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_MXFP4_H_
