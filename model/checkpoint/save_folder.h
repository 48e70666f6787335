#ifndef MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
#define MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_

// Writes a model as a Hugging Face folder that Transformers (4 and 5) opens: config.json, the
// weights, and the companions.
//
// config.json is the one that the model came with, but for what changed: the dtype; and where
// rope_parameters held rope_theta and a scaling these are written at the top level besides, since
// Transformers 4 reads them there alone (and silently takes 10000 otherwise); and num_experts,
// where Transformers 5 wrote num_local_experts, and layer_types under 4's names.
//
// A composite model is written whole: what it carries beside its text half byte for byte, under the
// names that its files had, and in config.json that half's text_config alone changes (the dtype
// besides).
//
// All or nothing: files are written whole and flushed under temporary names, then renamed,
// config.json last. Weight files of an older model in the same folder that the new ones would not
// replace are removed.

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

// `parameters` are the model's, under their published names, a tied head once as the embedding. A
// set that is not the config's (a name missing, one too many, another shape) throws c10::Error. A
// folder that cannot be made or written, or a full disk, gives the disk's status
// (PERMISSION_DENIED, RESOURCE_EXHAUSTED, ...) with the path. Peak memory: one weight in `dtype`.
// `work`, where there is one, counts the weights that are written.
absl::Status SaveFolder(const std::string& dir, const ModelConfig& config,
                        const base::Parameters& parameters, at::ScalarType dtype,
                        const std::map<std::string, std::string>& companions, int64_t shard_bytes,
                        Flush flush = Flush::kNow, const CarriedWeights& carried = {},
                        const std::shared_ptr<base::WorkCount>& work = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
