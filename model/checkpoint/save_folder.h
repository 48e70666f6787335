#ifndef MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
#define MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_

// Writes a model as a Hugging Face folder that Transformers (4 and 5) opens: config.json, the
// weights, and the companions.
//
// config.json is the original one with these changes. The dtype is that of the saved weights.
// rope_theta and a scaling in rope_parameters are also written at the top level, because
// Transformers 4 reads them only there (and otherwise silently uses theta 10000). num_experts is
// added if the file has only num_local_experts, as Transformers 5 writes it. layer_types uses the
// names of Transformers 4.
//
// A composite (multimodal) model is written completely: tensors outside its text model are copied
// byte for byte under the names of the original files, and in config.json only text_config (and the
// dtype) changes.
//
// The folder appears complete or not at all: files are written and flushed under temporary names,
// then renamed, config.json last. If the folder already contains a model, its weight files that are
// not overwritten are removed.

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

// `parameters` are the model's, under their Hugging Face names; a tied head occurs only as the
// embedding. Throws c10::Error if they do not match the config (a name is missing or unknown, or a
// shape differs). If the folder cannot be created or written, or the disk is full, returns an error
// (PERMISSION_DENIED, RESOURCE_EXHAUSTED, ...) with the path. Peak memory: one weight in `dtype`.
// `work`, if not null, counts the weights that are written.
absl::Status SaveFolder(const std::string& dir, const ModelConfig& config,
                        const base::Parameters& parameters, at::ScalarType dtype,
                        const std::map<std::string, std::string>& companions, int64_t shard_bytes,
                        Flush flush = Flush::kNow, const CarriedWeights& carried = {},
                        const std::shared_ptr<base::WorkCount>& work = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_SAVE_FOLDER_H_
