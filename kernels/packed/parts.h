#ifndef MOONRING_KERNELS_PACKED_PARTS_H_
#define MOONRING_KERNELS_PACKED_PARTS_H_

// Checks and helpers that all quantization codes share.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"

namespace moonring::kernels {

struct PartShape {
  const char* name;  // "codes"
  at::ScalarType dtype;
  int64_t size;
};

int64_t BytesOf(const std::vector<PartShape>& parts);

// Throws, naming `code` (the quantization code), if the packed tensors do not have the shapes
// `wanted`, or if `out` does not meet the requirements of WeightCode::Unpack.
void CheckParts(const std::string& code, const std::vector<PartShape>& wanted,
                const PackedWeight& packed, const at::Tensor& out);

// Returns the weight on the CPU and contiguous, ready to be packed; INVALID_ARGUMENT for a dtype
// that the codes cannot pack.
absl::StatusOr<at::Tensor> ToPack(const std::string& code, const at::Tensor& weight);

// The error "nf4: a weight of shape [2, 3] has numbers that are not finite".
absl::Status NotFinite(const std::string& code, const at::Tensor& weight);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_PARTS_H_
