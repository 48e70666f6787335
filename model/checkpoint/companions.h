#ifndef MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
#define MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_

// The files of a model besides config.json and the weights: tokenizer files, chat template,
// generation_config.json, image processor configs, and code of families that Transformers itself
// does not have (never run here). They are kept by file name. A checkpoint writes them with a model
// trained from it, and they are all that a tokenizer needs.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

using Companions = std::map<std::string, std::string>;  // file name -> contents

// Whether a file or folder exists; false if that cannot be determined.
bool PathExists(const std::string& path);

// Whether a file with this name is a companion.
bool IsCompanion(absl::string_view name);

// The companions in a folder. Fails if the folder cannot be listed or a companion cannot be read.
absl::StatusOr<Companions> CompanionsIn(const std::string& folder);

// Path of the only .gguf file of a folder. If the file is split into several parts, the path of the
// first, which fails with an explanation when it is opened. NOT_FOUND if there is none;
// INVALID_ARGUMENT if there are several, or only an adapter.
absl::StatusOr<std::string> TheGgufIn(const std::string& folder);

// Companions of a model whose weights and config.json need not exist: of a folder, of a .gguf file,
// or of the only .gguf file of a folder without other files of a model. NOT_FOUND:
// "model_name_or_path: no folder or file 'x'".
absl::StatusOr<Companions> CompanionsOf(const std::string& path);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
