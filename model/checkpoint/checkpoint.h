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
// Weights are loaded one at a time. In the file's own dtype they are copy-on-write views of the
// mapped file, so ranks on one machine share the pages that they do not change.

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

  // Opens only the config; the weights need not exist. A FOLDER with config.json is enough, or the
  // path of such a file. A GGUF file is opened completely, because it contains the config. Without
  // weights there are no file names and no stored dtypes, and Load fails (FAILED_PRECONDITION).
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenConfig(const std::string& path);

  // Opens a FOLDER with config.json and initialises its weights randomly (fresh_weights.h); weight
  // files in the folder are ignored. INVALID_ARGUMENT for anything else, or if a value of
  // config.json makes initialisation impossible; UNIMPLEMENTED for a composite model, whose other
  // weights exist only in files.
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenFresh(const std::string& path,
                                                               uint64_t seed);

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  // The model's name in the files that are saved from it; the path unless set_name was called.
  const std::string& name() const { return name_.empty() ? path_ : name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Names of the weights that the config requires, from the embedding to the head. There is no
  // lm_head.weight if the head is tied.
  std::vector<std::string> names() const;

  // Weights in the files that the config does not use and that are not saved; none for a composite
  // model. Rotary inv_freq buffers and a stored copy of a tied head are not listed.
  std::vector<std::string> extra_names() const;

  // Data to copy from these files into the saved ones: the files' names of the weights, and a
  // composite model's other tensors. Use it only while the checkpoint exists.
  CarriedWeights carried() const;

  // Storage types of the required weights ("BF16", "Q4_K"), the most frequent first; sorted paths
  // of their files; and the total size of these files.
  std::vector<std::string> stored_dtypes() const;
  std::vector<std::string> files() const;
  uint64_t file_bytes() const;

  // Extends the rotary embedding of models loaded after this call (rope_scaling.h). Returns a line
  // that describes the result, for the log.
  absl::StatusOr<std::string> ScaleRope(absl::string_view kind, int64_t length);

  // Makes room for `tokens` tokens in models loaded after this call. If there are fewer rows, the
  // embedding and an untied head grow to a multiple of 64 rows, the new ones around the mean of the
  // old ones (vocabulary_growth.h), and the config is updated. A second embedding (LayerInputRule)
  // grows likewise.
  void GrowVocabulary(int64_t tokens, uint64_t seed);

  // Changes the files that models loaded after this call write next to their weights.
  // ReplaceCompanions replaces companions by name. EndWith sets an eos in config.json and puts it
  // before the existing ones in generation_config.json, if there is one; INVALID_ARGUMENT if that
  // is not a JSON object.
  void ReplaceCompanions(const std::map<std::string, std::string>& files);
  absl::Status EndWith(int64_t eos);

  absl::StatusOr<at::Tensor> Load(const std::string& name, at::ScalarType dtype) const;

  // The quantisation code of a weight in the files, and the weight in that packed form. Null for a
  // weight that is not stored packed, or if only the config was opened (WeightStore::CodeOf).
  std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const;
  absl::StatusOr<kernels::PackedWeight> LoadPacked(const std::string& name) const;

  // File name -> contents: tokenizer.json, tokenizer.model, tokenizer_config.json,
  // generation_config.json, special_tokens_map.json, chat_template.jinja, configuration_x.py, ...
  const Companions& companions() const { return companions_; }

 private:
  Checkpoint() = default;
  absl::Status ReadConfig(const std::string& file);
  absl::Status OpenFolder();
  // Maps the files' names to the family's, for families whose files use several naming schemes.
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
  const RenamedWeights* renamed_ = nullptr;  // points to the store if the files use other names
  Companions companions_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_
