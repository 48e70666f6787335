#ifndef MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_
#define MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_

// Interface of quantization codes, in which the weights of a frozen base model are stored packed
// (QLoRA, arXiv 2305.14314): a matrix W is kept as W' = code(W), and each use of it unpacks
//
//   out = decode(W')      in fp32, rounded once to out's dtype, to nearest, ties to even
//
// so every matmul uses the same numbers. A code is stateless: one object serves all weights, from
// any thread. Moonring packs weights into the codes of four_bit.h and eight_bit.h;
// model/gguf/gguf_code.h reads the codes of GGUF files.
//
// Cost of Unpack: one pass that reads PackedBytes and writes out's bytes, without a temporary of
// out's size.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include "absl/status/statusor.h"

namespace moonring::kernels {

// A packed weight.
struct PackedWeight {
  // The packed tensors: one-dimensional and contiguous, in the code's order (codes, scales, ..).
  // Their number, sizes and dtypes follow from the code and the shape. All are on one device.
  std::vector<at::Tensor> parts;
  std::vector<int64_t> shape;  // of the weight
};

class WeightCode {
 public:
  virtual ~WeightCode() = default;

  virtual std::string name() const = 0;  // "nf4", "int8", "Q4_K" ..

  // Packs `weight`, which must be in fp32, bf16 or fp16 and should be in its original dtype, not
  // cast. UNIMPLEMENTED if the code is for reading files only; INVALID_ARGUMENT for non-finite
  // numbers, or for a dtype or shape that the code does not support.
  virtual absl::StatusOr<PackedWeight> Pack(const at::Tensor& weight) const = 0;

  // Unpacks into `out`, which is contiguous, has the weight's shape, is in fp32, fp64, bf16 or
  // fp16, and is on the device of the packed tensors. In fp64 `out` gets the fp32 values. Throws if
  // the packed tensors do not fit the shape.
  virtual void Unpack(const PackedWeight& packed, at::Tensor& out) const = 0;

  // Total bytes of the packed tensors for a weight of that shape, in closed form.
  virtual int64_t PackedBytes(at::IntArrayRef shape) const = 0;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_
