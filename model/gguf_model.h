#ifndef MOONRING_MODEL_GGUF_MODEL_H_
#define MOONRING_MODEL_GGUF_MODEL_H_

// A GGUF file as a Hugging Face model: its weights under their published names and with their rows in the published order, and the
// config.json that describes it (one that Transformers 4 and 5 both read: rope_theta at the top level, no rope_scaling).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weight_store.h"

namespace moonring::model {

class GgufModel : public WeightStore {
 public:
  // UNIMPLEMENTED for another architecture, rope scaling, experts or element type; INVALID_ARGUMENT where the metadata contradict
  // themselves or the tensors.
  static absl::StatusOr<std::unique_ptr<GgufModel>> Open(std::shared_ptr<const GgufFile> file);

  const ModelConfig& config() const { return config_; }
  const GgufFile& file() const { return *file_; }
  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

 private:
  explicit GgufModel(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, std::string> gguf_name_;  // by Hugging Face name
};

// The metadata (and the shapes and names of the tensors) as a config.json.
absl::StatusOr<std::string> ConfigFromGguf(const GgufFile& file);

// The shortest decimal that an fp32 value can have come from: 9.99999975e-06, stored as fp32, is 1e-05.
double ShortestDecimal(float value);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_MODEL_H_
