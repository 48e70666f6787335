#ifndef MOONRING_MODEL_GGUF_GGUF_CODE_H_
#define MOONRING_MODEL_GGUF_GGUF_CODE_H_

// The blocks of a GGUF file (gguf_blocks.h) as a code in which weights lie packed: bit by bit what
// GgufFile::Read gives, rounded once where out is narrower than fp32. Only files have it: nothing
// is packed into it here.
//
//   parts   blocks: uint8 [n / elements * bytes], row after row
//
// On a GPU the blocks are copied to the CPU, and the numbers back.

#include <string>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

class GgufCode final : public kernels::WeightCode {
 public:
  // `type` must be readable, and blocks of it more than one number; it outlives the code, as those
  // of FindGgufType do.
  explicit GgufCode(const GgufType& type);

  std::string name() const override { return type_.name; }
  absl::StatusOr<kernels::PackedWeight> Pack(const at::Tensor& weight) const override;
  void Unpack(const kernels::PackedWeight& packed, at::Tensor& out) const override;
  // Throws where rows are no whole blocks.
  int64_t PackedBytes(at::IntArrayRef shape) const override;

 private:
  const GgufType& type_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_CODE_H_
