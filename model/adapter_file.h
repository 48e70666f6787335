#ifndef MOONRING_MODEL_ADAPTER_FILE_H_
#define MOONRING_MODEL_ADAPTER_FILE_H_

// Reads the tensors of an adapter's folder from adapter_model.safetensors, or from
// adapter_model.bin as torch.save writes it (only tensors are read; no code in the pickle is run).
// Each tensor can be taken once.
//
// Names are PEFT's over the base's modules: base_model.model.<module>.<part>. These variants are
// read too: with the prefixes of wrappers that the model had when it was saved (module.,
// _orig_mod., _fsdp_wrapped_module., _checkpoint_wrapped_module., base_layer., modules_to_save.),
// with the adapter's name (lora_A.default.weight), without base_model.model., and with the decoder
// under the prefix of another version of Transformers (language_model.model.layers. for
// model.language_model.layers.).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/broken_weights.h"
#include "model/config/config.h"
#include "model/files/pickled_folder.h"
#include "model/files/safetensors.h"

namespace moonring::model {

class AdapterFile {
 public:
  // `placed`: the device and dtype of the tensors that Take returns.
  AdapterFile(const ModelConfig& config, at::TensorOptions placed);

  absl::Status Open(const std::string& path);

  struct Part {
    std::string module, part;  // "model.layers.0.self_attn.q_proj", "lora_A.weight"
    std::vector<int64_t> shape;
  };
  const std::map<std::string, Part>& parts() const { return parts_; }  // by name
  // The modules that have a tensor `part`.
  std::vector<std::string> ModulesWith(absl::string_view part) const;

  // Returns a tensor and marks it as taken. NOT_FOUND if the tensor is missing; INVALID_ARGUMENT if
  // its shape is not `shape`.
  absl::StatusOr<at::Tensor> Take(const std::string& name, const std::vector<int64_t>& shape);
  // Returns a tensor that must exist, in the dtype of the file and on the CPU, and marks it as
  // taken.
  absl::StatusOr<at::Tensor> TakeAsItIs(const std::string& name);
  bool IsTaken(const std::string& name) const { return taken_.contains(name); }

  // Fails if a taken tensor contains a NaN or an infinity. With `all`, also fails if a tensor of
  // the file was not taken.
  absl::Status Finish(bool all) const;

 private:
  absl::StatusOr<at::Tensor> Read(const std::string& name);
  absl::Status Add(const std::string& stored, std::vector<int64_t> shape);
  std::string BaseModule(const std::string& module) const;

  std::set<std::string> modules_,
      tables_;          // the base's modules; names of the per-token weights (embedding, head)
  std::string layers_;  // "model.layers."
  const at::TensorOptions placed_;
  std::string path_;
  std::shared_ptr<const SafetensorsFile> file_;
  std::shared_ptr<const PickledFile> pickled_;
  std::map<std::string, Part> parts_;
  std::map<std::string, std::string> stored_;  // the file's name of each tensor
  std::set<std::string> taken_;
  BrokenWeights broken_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_FILE_H_
