#ifndef MOONRING_MODEL_PRECISION_H_
#define MOONRING_MODEL_PRECISION_H_

// The dtypes of a model for each precision name:
//
//              weights   matmuls
//   fp32       fp32      fp32
//   bf16       fp32      bf16
//   fp16       fp32      fp16
//   pure_bf16  bf16      bf16
//   fp64       fp64      fp64

#include <string>

#include "absl/status/statusor.h"
#include "model/transformer.h"

namespace moonring::model {

// Returns TransformerOptions with the dtypes of `precision`. INVALID_ARGUMENT for an unknown name.
absl::StatusOr<TransformerOptions> OptionsOfPrecision(const std::string& precision);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_PRECISION_H_
