#ifndef MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_
#define MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_

// A model as it lies on disk: its config, its weights by their Hugging Face names, and the files
// that belong to it (tokenizer and so on).
//
//   FOLDER with config.json    Hugging Face's: model.safetensors or pytorch_model.bin, or shards of
//                              either with an index
//   FOLDER with one .gguf      that file
//   FILE.gguf                  its tokenizer and config are made from its metadata
//
// Open reads headers only and checks every weight that the config wants: its name, shape and dtype.
// So what is wrong with the files is said before the first weight is read, in one line. Weights
// come one at a time; in the file's own dtype they are views of the mapped file (copied page by
// page when written to), so ranks on one machine share what they do not change.

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
  // NOT_FOUND: "model_name_or_path: no folder or file 'x'", or the file or tensor that is missing.
  // INVALID_ARGUMENT: a file is damaged, or a weight has another shape than the config says.
  // UNIMPLEMENTED: a kind of model, or of weight, that is not supported yet.
  static absl::StatusOr<std::shared_ptr<Checkpoint>> Open(const std::string& path);

  // What a model is, whether its weights are there or not: a FOLDER with config.json, or such a
  // file by its own name, is enough. A GGUF file is opened whole, its config being in it. There are
  // no names of files then, no stored dtypes and no weights to load (FAILED_PRECONDITION).
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenConfig(const std::string& path);

  // A FOLDER with config.json whose weights are made afresh (fresh_weights.h), whatever files of
  // weights it has. INVALID_ARGUMENT for anything else, and for a number of config.json that no
  // weights can be drawn by; UNIMPLEMENTED of a composite model, whose other parts are its files'.
  static absl::StatusOr<std::shared_ptr<Checkpoint>> OpenFresh(const std::string& path,
                                                               uint64_t seed);

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  // What it is called in what is saved of it: the path where nobody gave it a name.
  const std::string& name() const { return name_.empty() ? path_ : name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // The weights that the config wants, from the embedding to the head. No lm_head.weight where it
  // is tied.
  std::vector<std::string> names() const;

  // Weights in the files that the config does not want, and that what is saved does not have; of a
  // composite model there are none. Rotary inv_freq buffers, and a tied head stored all the same,
  // are not named.
  std::vector<std::string> extra_names() const;

  // What goes from these files into those that are saved: their names of the weights, and of a
  // composite model what they hold beside those that the config wants. To be written while the
  // checkpoint lives.
  CarriedWeights carried() const;

  // How the weights that the config wants are stored ("BF16", "Q4_K"), the commonest first; the
  // paths of their files, sorted, and the bytes of these.
  std::vector<std::string> stored_dtypes() const;
  std::vector<std::string> files() const;
  uint64_t file_bytes() const;

  // Stretches the rotary embedding of models loaded from here on (rope_scaling.h); gives a line
  // that says what came of it.
  absl::StatusOr<std::string> ScaleRope(absl::string_view kind, int64_t length);

  // Makes room for `tokens` tokens in models loaded from here on: where there are fewer rows, the
  // embedding's and an untied head's become a multiple of 64, the new ones around the old ones'
  // mean (vocabulary_growth.h), and the config says so. A second embedding's (LayerInputRule)
  // likewise.
  void GrowVocabulary(int64_t tokens, uint64_t seed);

  // What models loaded from here on write beside their weights: `files` in place of the companions
  // of the same names, and an eos, which config.json gets and generation_config.json, where there
  // is one, before its own. INVALID_ARGUMENT where that is no JSON object.
  void ReplaceCompanions(const std::map<std::string, std::string>& files);
  absl::Status EndWith(int64_t eos);

  absl::StatusOr<at::Tensor> Load(const std::string& name, at::ScalarType dtype) const;

  // The code in which the files hold a weight, and the weight as it lies there; a weight that no
  // file has so, or one of a config alone, has none (WeightStore::CodeOf).
  std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const;
  absl::StatusOr<kernels::PackedWeight> LoadPacked(const std::string& name) const;

  // File name -> contents: tokenizer.json, tokenizer.model, tokenizer_config.json,
  // generation_config.json, special_tokens_map.json, chat_template.jinja, configuration_x.py, ...
  const Companions& companions() const { return companions_; }

 private:
  Checkpoint() = default;
  absl::Status ReadConfig(const std::string& file);
  absl::Status OpenFolder();
  // Of a family whose files may call its weights in several ways.
  absl::Status Rename();
  void FindTie();
  // How the experts of a mixture are stored, which config.json does not say.
  void FindExperts();
  absl::Status OpenGguf(const std::string& file);
  std::vector<std::string> UnwantedNames() const;
  absl::Status CheckWeights() const;

  std::string path_, name_;
  ModelConfig config_;
  uint64_t growth_seed_ = 0;
  std::unique_ptr<WeightStore> store_;       // null of a config alone
  const RenamedWeights* renamed_ = nullptr;  // the store, where the files' names are not ours
  Companions companions_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CHECKPOINT_H_
