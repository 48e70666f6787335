#ifndef MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_
#define MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_

// Writes a model as one GGUF file that llama.cpp, Transformers and Checkpoint::Open can read: the
// weights, the contents of config.json, the tokenizer and its chat template. Names, keys and types
// are those that llama.cpp's converter writes.
//
// One-dimensional tensors, routers and convolution filters are F32 whatever `type` is; under Q8_0,
// tensors whose row length is not a multiple of 32 are F16. A tied head is omitted. Numbers are
// rounded once.
//
// GGUF cannot represent every model. So before anything is written, the new header is parsed back
// to a config. If that config differs from the model's, an error names the difference, for example
// an attention window for which the architecture has no key.
//
// The file appears complete or not at all: it is written and flushed under a temporary name, then
// renamed.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "model/config/config.h"
#include "model/files/staged_files.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

struct GgufOptions {
  std::string type = "F32";  // F32, F16, BF16, Q8_0
  std::string name;          // general.name; "": none
  std::map<std::string, std::string> companions;
  Flush flush = Flush::kNow;
};

// Checks, from the config and the tokenizer alone, whether the model can be written as GGUF.
// Returns one line for each property that the file will not contain. UNIMPLEMENTED for a family, a
// rule of the model or a tokenizer that GGUF cannot represent; INVALID_ARGUMENT for an unknown
// type.
absl::StatusOr<std::vector<std::string>> CheckGguf(const std::string& path,
                                                   const ModelConfig& config,
                                                   const GgufOptions& options);

// `parameters` are the model's, as for SaveFolder, and must not be sharded. Throws if they do not
// match the config. Fails as CheckGguf does; with INVALID_ARGUMENT, naming the tensor, if a number
// is not finite or too large for the type; or, if the disk fails, with an error that contains the
// path. Peak memory: two fp32 copies of one weight; experts are written one at a time.
absl::Status SaveGguf(const std::string& path, const ModelConfig& config,
                      const base::Parameters& parameters, const GgufOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_
