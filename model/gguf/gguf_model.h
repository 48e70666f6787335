#ifndef MOONRING_MODEL_GGUF_GGUF_MODEL_H_
#define MOONRING_MODEL_GGUF_GGUF_MODEL_H_

// Presents a GGUF file as a Hugging Face model: the weights have their Hugging Face names and the
// order of rows of the Hugging Face model (gguf_layout.h lists the differences).
//
// Multi-token prediction layers, which follow the ordinary layers, are skipped.
//
// A weight can stay quantised in memory (CodeOf) if it consists of whole rows of tensors of one
// quantised type; this includes reordered heads, fused maps and experts. A weight that is
// transposed, or whose numbers are changed, must be dequantised.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"
#include "model/config/config.h"
#include "model/files/weight_store.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_layout.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

class GgufModel : public WeightStore {
 public:
  // UNIMPLEMENTED for an unsupported architecture, rope scaling or element type; INVALID_ARGUMENT
  // if the metadata contradict each other or the tensors.
  static absl::StatusOr<std::unique_ptr<GgufModel>> Open(std::shared_ptr<const GgufFile> file);

  const ModelConfig& config() const { return config_; }
  const GgufFile& file() const { return *file_; }
  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;
  std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const override;
  absl::StatusOr<kernels::PackedWeight> ReadPacked(const std::string& name) const override;

 private:
  explicit GgufModel(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {}
  // Shape of the weight that is assembled from the tensors; empty if their shapes do not fit
  // together.
  std::vector<int64_t> ShapeOf(const GgufSource& source) const;
  void Add(const std::string& name, GgufSource source);
  // The quantised type that all tensors of the weight have; null if the weight must be dequantised.
  const GgufType* BlocksOf(const std::string& name) const;
  absl::StatusOr<const GgufSource*> FindSource(const std::string& name) const;
  // Reads the tensors of a weight, with rows in the order of the Hugging Face model; dequantised,
  // or as quantised blocks if `blocks`.
  absl::StatusOr<std::vector<at::Tensor>> ReadTensors(const GgufSource& source, bool blocks) const;

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, GgufSource> sources_;  // by Hugging Face name
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_MODEL_H_
