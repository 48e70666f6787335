#ifndef MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_
#define MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_

// Writes a model as one GGUF file that llama.cpp and Transformers open, and Checkpoint::Open: the
// weights, what config.json says, the tokenizer and its chat template. Names, keys and types are
// those that llama.cpp's converter writes.
//
// Tensors of one dim, routers and taps are F32 whatever `type` is; under Q8_0 those whose rows are
// no multiple of 32 are F16. A tied head is left out. Numbers are rounded once.
//
// Not all that a model may be can be said in the format. So the header is read again before
// anything is written, and what differs from the model refuses it by name: a window that the
// architecture has no key for, say.
//
// All or nothing: the file is written and flushed under a temporary name, then renamed.

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

// Whether the model can be written so, without its weights. Gives a line for each thing that the
// file will not say. UNIMPLEMENTED for a family, a rule of the model's or a tokenizer without a
// form in GGUF; INVALID_ARGUMENT for another type.
absl::StatusOr<std::vector<std::string>> CheckGguf(const std::string& path,
                                                   const ModelConfig& config,
                                                   const GgufOptions& options);

// `parameters` are the model's, whole on this rank, as SaveFolder's; throws where they are others.
// What CheckGguf says; INVALID_ARGUMENT, naming the tensor, where a number is not finite or too
// large for the type; the disk's status, with the path. Peak memory: one weight twice, in fp32;
// of experts one at a time.
absl::Status SaveGguf(const std::string& path, const ModelConfig& config,
                      const base::Parameters& parameters, const GgufOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_SAVE_GGUF_H_
