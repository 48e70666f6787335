#ifndef MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_
#define MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_

// A model on disk: its config, its weights by their Hugging Face names, and the other files of its
// folder (tokenizer and so on).
//
//   FOLDER with config.json    Hugging Face's: model.safetensors or pytorch_model.bin, or shards of
//                              either with an index
//   FOLDER with one .gguf      that file
//   FILE.gguf                  tokenizer and config are made from its metadata
//
// Open reads only headers and checks name, shape and dtype of every weight that the config
// requires. So an error in the files is reported, in one line, before the first weight is read.
// Weights are loaded one at a time. A weight that is loaded in the dtype of its file is a
// copy-on-write view of the mapped file, so ranks on one machine share the pages that they do not
// change.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/packed/weight_code.h"
#include "model/checkpoint/carried_weights.h"
#include "model/checkpoint/companions.h"
#include "model/checkpoint/renamed_weights.h"
#include "model/config/config.h"
#include "model/files/weight_store.h"

namespace moonring::model {

class Checkpoint {
 public:
  // NOT_FOUND: "model_name_or_path: no folder or file 'x'", or a file or tensor is missing.
  // INVALID_ARGUMENT: a file is damaged, or a weight has another shape than the config requires.
  // UNIMPLEMENTED: an architecture or a storage format that is not supported.
  static absl::StatusOr<std::shared_ptr<Checkpoint>> Open(const std::string& path);

  // Opens only the config; the weights need not exist. `path` is a FOLDER with config.json, or the
  // path of a config.json. A GGUF file is opened completely, because it contains the config. If
  // only the config was opened, files() and stored_dtypes() are empty and Load fails
  // (FAILED_PRECONDITION).
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenConfig(const std::string& path);

  // Opens a FOLDER with config.json and initialises its weights randomly (fresh_weights.h); weight
  // files in the folder are ignored. INVALID_ARGUMENT if `path` is not such a folder, or if a value
  // of config.json makes initialisation impossible; UNIMPLEMENTED for a multimodal model, because
  // only its text model can be initialised.
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenFresh(const std::string& path,
                                                               uint64_t seed);

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  // The name by which saved files refer to this model; it is the path unless set_name was called.
  const std::string& name() const { return name_.empty() ? path_ : name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Names of the weights that the config requires, from the embedding to the head. A tied head has
  // no name in the list.
  std::vector<std::string> names() const;

  // Names of weights in the files that the config does not use and that will not be saved. The list
  // is empty for a composite (multimodal) model, because all of its tensors are saved. Rotary
  // inv_freq buffers and a stored copy of a tied head are not listed.
  std::vector<std::string> extra_names() const;

  // Data to copy from these files into the saved ones (carried_weights.h). The result must not
  // outlive this object.
  CarriedWeights carried() const;

  // stored_dtypes: storage types of the required weights ("BF16", "Q4_K"), the most frequent first.
  // files: sorted paths of the files that contain these weights. file_bytes: total size of these
  // files.
  std::vector<std::string> stored_dtypes() const;
  std::vector<std::string> files() const;
  uint64_t file_bytes() const;

  // Changes the config so that the rotary embedding supports `length` tokens (rope_scaling.h), for
  // models loaded after this call. Returns a line that describes the result, for the log.
  absl::StatusOr<std::string> ScaleRope(absl::string_view kind, int64_t length);

  // Makes room for a vocabulary of `tokens` tokens in models loaded after this call. If the
  // embedding has fewer rows, the embedding and an untied head grow to a multiple of 64 rows, and
  // the config is updated. New rows are the mean of the old rows plus noise (vocabulary_growth.h).
  // A second embedding (LayerInputRule) grows in the same way.
  void GrowVocabulary(int64_t tokens, uint64_t seed);

  // Change the files that models loaded after this call save next to their weights.
  // ReplaceCompanions replaces companions (file name -> contents). EndWith sets the end-of-sequence
  // id in config.json, and puts it before the existing ids in generation_config.json if that file
  // exists; INVALID_ARGUMENT if generation_config.json is not a JSON object.
  void ReplaceCompanions(const std::map<std::string, std::string>& files);
  absl::Status EndWith(int64_t eos);

  absl::StatusOr<at::Tensor> Load(const std::string& name, at::ScalarType dtype) const;

  // CodeOf: the quantisation code in which the files store a weight; null for a weight that is not
  // stored quantised, or if only the config was opened. LoadPacked: the weight in that quantised
  // form.
  std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const;
  absl::StatusOr<kernels::PackedWeight> LoadPacked(const std::string& name) const;

  // File name -> contents: tokenizer.json, tokenizer.model, tokenizer_config.json,
  // generation_config.json, special_tokens_map.json, chat_template.jinja, configuration_x.py, ...
  const Companions& companions() const { return companions_; }

 private:
  Checkpoint() = default;
  absl::Status ReadConfig(const std::string& file);
  absl::Status OpenFolder();
  // Maps the weight names in the files to the family's names, for families whose files use several
  // naming schemes.
  absl::Status Rename();
  void FindTie();
  // Finds how the experts of a mixture are stored, which config.json does not state.
  void FindExperts();
  absl::Status OpenGguf(const std::string& file);
  std::vector<std::string> UnwantedNames() const;
  absl::Status CheckWeights() const;

  std::string path_, name_;
  ModelConfig config_;
  uint64_t growth_seed_ = 0;
  std::unique_ptr<WeightStore> store_;       // null if only the config was opened
  const RenamedWeights* renamed_ = nullptr;  // store_, if the files use other names; else null
  Companions companions_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_
