#ifndef MOONRING_MODEL_BASE_PACKING_H_
#define MOONRING_MODEL_BASE_PACKING_H_

// Which weights of a frozen base model are stored packed, that is quantised, and in which
// quantisation code (kernels/packed/weight_code.h). The matrices of the linear modules in decoder
// blocks are packed, the same ones that Transformers 5 gives to bitsandbytes. These are not packed:
// the embedding, the head, norms, convolutions, per-head parameters, routers (rounding would change
// their choices), and experts stacked in one tensor, which are not linear modules in Transformers
// either. Experts that the files store one by one are packed.

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
  std::shared_ptr<const kernels::WeightCode> code;  // null: the code of the file (GGUF)
  // The dtype that weights are read in before they are packed: fp32, bf16 or fp16.
  at::ScalarType dtype = at::kFloat;
  // true: weights are rounded to values that the quantisation code can represent, but are stored
  // unpacked. This is for merging adapters that were trained over a packed base.
  bool rounds_only = false;
};

// The packing with a given name: "nf4", "fp4", "nf4 double", "fp4 double" (double: the quantisation
// scales are quantised too), "int8", or "file" (code is null). INVALID_ARGUMENT for any other name.
absl::StatusOr<BasePacking> PackingNamed(absl::string_view name);

// Names and shapes of the weights that may be packed.
std::vector<WeightShape> PackedWeights(const ModelConfig& config);

// The result of packing one weight. Peak memory while packing is the weight in `packing.dtype` plus
// its packed form.
struct Packed {
  std::shared_ptr<const kernels::WeightCode> code;  // null: the file stores it unpacked
  kernels::PackedWeight weight;
};
absl::StatusOr<Packed> Pack(const Checkpoint& checkpoint, const std::string& name,
                            const BasePacking& packing);

// Size of the packed weights.
struct PackedSize {
  int64_t numbers = 0, bytes = 0;
  int64_t layer_numbers = 0, layer_bytes = 0;  // in the layer that has the most
};
absl::StatusOr<PackedSize> SizeOfPacked(const Checkpoint& checkpoint, const BasePacking& packing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BASE_PACKING_H_
