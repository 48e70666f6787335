#ifndef MOONRING_MODEL_FILES_MXFP4_H_
#define MOONRING_MODEL_FILES_MXFP4_H_

// Weights in four bits (OCP Microscaling Formats 1.0, MXFP4), as gpt-oss's files have its experts:
// for a tensor NAME [E, 32 G, R] there are
//
//   NAME_blocks  U8 [E, R, G, 16]   two numbers a byte, the lower four bits first: e2m1
//   NAME_scales  U8 [E, R, G]       of 32 numbers the power of two, plus 127: e8m0
//
//   NAME[e, 32 g + i, r] = value of the i-th four bits x 2^(scale - 127)
//
// A store of them gives NAME in bf16, which holds every such number but the least. Memory: the
// tensor that is asked for, and one E-th of it at work.

#include <memory>

#include "absl/status/statusor.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// `store` with NAME for each such pair. INVALID_ARGUMENT: one without the other, or shapes or
// dtypes that are not those above.
absl::StatusOr<std::unique_ptr<WeightStore>> ReadMxfp4(std::unique_ptr<WeightStore> store);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_MXFP4_H_
