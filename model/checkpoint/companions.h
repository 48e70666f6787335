#ifndef MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
#define MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_

// What belongs to a model beside config.json and the weights: tokenizer files, chat template,
// generation_config.json, what turns images into tensors, code of families that Transformers itself
// does not have (never run here). By file name: a checkpoint writes them beside a model trained
// from it, and a tokenizer wants nothing else.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

using Companions = std::map<std::string, std::string>;  // file name -> contents

// Whether a file or a folder is there; not where that cannot be told.
bool PathExists(const std::string& path);

// By its name.
bool IsCompanion(absl::string_view name);

// Those in a folder. Fails where it cannot be listed, or one of them cannot be read.
absl::StatusOr<Companions> CompanionsIn(const std::string& folder);

// The one .gguf file of a folder (of several parts the first, whose opening says what to do with
// them). NOT_FOUND where there is none, INVALID_ARGUMENT where there are several, or an adapter
// alone.
absl::StatusOr<std::string> TheGgufIn(const std::string& folder);

// Those of a model whose weights need not be there, nor its config.json: of a folder, of a .gguf
// file, or of the one .gguf file of a folder that holds nothing else of a model. NOT_FOUND:
// "model_name_or_path: no folder or file 'x'".
absl::StatusOr<Companions> CompanionsOf(const std::string& path);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_COMPANIONS_H_
