#ifndef MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_
#define MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_

// The codes in which the weights of a frozen base lie packed (QLoRA, arXiv 2305.14314): a matrix W
// is kept as W' = code(W), and each use of it unpacks
//
//   out = decode(W')      in fp32, rounded once to out's dtype, to the nearest, ties to even
//
// so a product sees the same numbers wherever and however often it is made. A code keeps no state:
// one object serves every weight, from any thread. four_bit.h and eight_bit.h have the codes that
// weights are packed into here, model/gguf/gguf_code.h those in which files hold them.
//
// Cost of Unpack: one pass, PackedBytes read and out's bytes written, no temporary of out's size.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include "absl/status/statusor.h"

namespace moonring::kernels {

// A weight's numbers, packed.
struct PackedWeight {
  // One-dimensional and contiguous, in the code's order (codes, scales, ..); how many, their sizes
  // and dtypes follow from the code and the shape. All on one device.
  std::vector<at::Tensor> parts;
  std::vector<int64_t> shape;  // of the weight
};

class WeightCode {
 public:
  virtual ~WeightCode() = default;

  virtual std::string name() const = 0;  // "nf4", "int8", "Q4_K" ..

  // `weight` in fp32, bf16 or fp16: the numbers that are packed are its own, not those that it was
  // cast from. UNIMPLEMENTED where only files have the code; INVALID_ARGUMENT for numbers that are
  // not finite, a dtype or a shape that the code has no place for.
  virtual absl::StatusOr<PackedWeight> Pack(const at::Tensor& weight) const = 0;

  // `out`: contiguous, of the weight's shape, in fp32, fp64, bf16 or fp16, on the parts' device.
  // fp64 gets fp32's numbers. Throws where the parts are not those of the shape.
  virtual void Unpack(const PackedWeight& packed, at::Tensor& out) const = 0;

  // Bytes of all parts of a weight of that shape, in closed form.
  virtual int64_t PackedBytes(at::IntArrayRef shape) const = 0;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_WEIGHT_CODE_H_
