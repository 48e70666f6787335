#ifndef MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
#define MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_

// The files of a model besides config.json and the weights: tokenizer files, chat template,
// generation_config.json, image processor configs, and code of families that Transformers itself
// does not have (never run here). They are kept by file name, and are saved again with a model that
// is trained from the checkpoint. They contain everything that a tokenizer needs.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

using Companions = std::map<std::string, std::string>;  // file name -> contents

// Whether a file or folder exists; false if that cannot be determined.
bool PathExists(const std::string& path);

// Whether a file with this name is a companion (a file of a model besides config.json and weights).
bool IsCompanion(absl::string_view name);

// The companions in a folder. Fails if the folder cannot be listed or a companion cannot be read.
absl::StatusOr<Companions> CompanionsIn(const std::string& folder);

// Path of the only .gguf file in a folder. If the model is split into several .gguf files, returns
// the path of the first; opening that file fails with an explanation. NOT_FOUND if the folder has
// no .gguf file; INVALID_ARGUMENT if it has several unrelated .gguf files, or only an adapter.
absl::StatusOr<std::string> TheGgufIn(const std::string& folder);

// Companions of a model; its weights and config.json need not exist. `path` is a folder, a .gguf
// file, or a folder that contains only one .gguf file. NOT_FOUND ("model_name_or_path: no folder or
// file 'x'") if `path` does not exist.
absl::StatusOr<Companions> CompanionsOf(const std::string& path);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
