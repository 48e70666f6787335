#ifndef MOONRING_MODEL_BASE_PACKING_H_
#define MOONRING_MODEL_BASE_PACKING_H_

// Which weights of a frozen base lie packed (kernels/packed/weight_code.h), and in which code: the
// matrices of linear modules in blocks, as Transformers 5 gives bitsandbytes. Not the embedding,
// the head, norms, convolutions, numbers by head; not a router, whose choices its rounding would
// change; and not experts that lie stacked in one tensor, which are no linear modules there either:
// of these files the experts stay as they are. Experts that files hold one by one are packed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/packed/weight_code.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/files/weight_shape.h"

namespace moonring::model {

struct BasePacking {
  std::shared_ptr<const kernels::WeightCode> code;  // null: that of each weight's file (GGUF)
  at::ScalarType dtype = at::kFloat;  // in which weights are read to be packed: fp32, bf16 or fp16
  bool rounds_only = false;  // weights get the numbers that the code gives, and do not lie packed:
                             // to merge adapters into that were learnt beside such a base
};

// By name: nf4, fp4, "nf4 double", "fp4 double", int8; and "file", whose code is null.
// INVALID_ARGUMENT for another.
absl::StatusOr<BasePacking> PackingNamed(absl::string_view name);

// The names of the weights that may be packed.
std::vector<WeightShape> PackedWeights(const ModelConfig& config);

// The packed weight, one pass; peak memory is the weight in `packing.dtype` and its parts.
struct Packed {
  std::shared_ptr<const kernels::WeightCode> code;  // null: its file has it unpacked
  kernels::PackedWeight weight;
};
absl::StatusOr<Packed> Pack(const Checkpoint& checkpoint, const std::string& name,
                            const BasePacking& packing);

// Of the weights that lie packed.
struct PackedSize {
  int64_t numbers = 0, bytes = 0;
  int64_t layer_numbers = 0, layer_bytes = 0;  // of the layer that has most
};
absl::StatusOr<PackedSize> SizeOfPacked(const Checkpoint& checkpoint, const BasePacking& packing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BASE_PACKING_H_
