#ifndef MOONRING_MODEL_GGUF_GGUF_CODE_H_
#define MOONRING_MODEL_GGUF_GGUF_CODE_H_

// The blocks of a GGUF file (gguf_blocks.h) as a code of packed weights. Unpacking gives the bits
// of GgufFile::Read, rounded once if `out` is narrower than fp32. Such weights come only from
// files; Pack is not supported.
//
//   parts   blocks: uint8 [n / elements * bytes], row after row
//
// On a GPU the blocks are copied to the CPU, unpacked there, and the numbers copied back.

#include <string>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

class GgufCode final : public kernels::WeightCode {
 public:
  // `type` must be readable, with more than one element per block, and must outlive the code, as
  // the types returned by FindGgufType do.
  explicit GgufCode(const GgufType& type);

  std::string name() const override { return type_.name; }
  absl::StatusOr<kernels::PackedWeight> Pack(const at::Tensor& weight) const override;
  void Unpack(const kernels::PackedWeight& packed, at::Tensor& out) const override;
  // Throws if a row is not a whole number of blocks.
  int64_t PackedBytes(at::IntArrayRef shape) const override;

 private:
  const GgufType& type_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_CODE_H_
