#ifndef MOONRING_MODEL_GGUF_GGUF_CODE_H_
#define MOONRING_MODEL_GGUF_GGUF_CODE_H_

// A quantisation code (WeightCode) for weights that stay in the quantised blocks of a GGUF file
// (gguf_blocks.h). Unpacking gives the same bits as GgufFile::Read, rounded once if the result's
// dtype is narrower than fp32. Pack is not supported: such weights come only from files.
//
//   parts   blocks: uint8 [n / elements * bytes], row after row
//
// Blocks on a GPU are copied to the CPU and unpacked there, and the numbers are copied back to the
// GPU.

#include <string>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

class GgufCode final : public kernels::WeightCode {
 public:
  // Creates the code of `type`, which must be readable, with more than one element per block, and
  // must outlive the code, as the types returned by FindGgufType do.
  explicit GgufCode(const GgufType& type);

  std::string name() const override { return type_.name; }
  absl::StatusOr<kernels::PackedWeight> Pack(const at::Tensor& weight) const override;
  void Unpack(const kernels::PackedWeight& packed, at::Tensor& out) const override;
  // Bytes of a packed weight of this shape. Throws if a row is not a whole number of blocks.
  int64_t PackedBytes(at::IntArrayRef shape) const override;

 private:
  const GgufType& type_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_CODE_H_
