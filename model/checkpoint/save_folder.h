#ifndef MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
#define MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_

// Writes a model as a Hugging Face folder that Transformers (4 and 5) opens: config.json, the
// weights, and the companions.
//
// config.json is the original one with these changes: the dtype; rope_theta and a scaling in
// rope_parameters are also written at the top level, because Transformers 4 reads them only there
// (and silently uses 10000 otherwise); num_experts is added where Transformers 5 wrote
// num_local_experts; and layer_types uses the names of Transformers 4.
//
// A composite model is written completely: tensors outside its text model are copied byte for byte
// under the files' names, and in config.json only text_config (and the dtype) changes.
//
// The folder appears complete or not at all: files are written and flushed under temporary names,
// then renamed, config.json last. Weight files of an older model in the same folder that the new
// ones do not replace are removed.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "base/threads/work_count.h"
#include "model/checkpoint/carried_weights.h"
#include "model/config/config.h"
#include "model/files/staged_files.h"

namespace moonring::model {

// `parameters` are the model's, under their published names, a tied head once as the embedding. If
// they do not match the config (a name missing, unknown, or with another shape), throws c10::Error.
// If the folder cannot be created or written, or the disk is full, returns the disk's status
// (PERMISSION_DENIED, RESOURCE_EXHAUSTED, ...) with the path. Peak memory: one weight in `dtype`.
// `work`, if not null, counts the weights that are written.
absl::Status SaveFolder(const std::string& dir, const ModelConfig& config,
                        const base::Parameters& parameters, at::ScalarType dtype,
                        const std::map<std::string, std::string>& companions, int64_t shard_bytes,
                        Flush flush = Flush::kNow, const CarriedWeights& carried = {},
                        const std::shared_ptr<base::WorkCount>& work = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
