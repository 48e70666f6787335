#ifndef MOONRING_MODEL_ADAPTER_FOLDER_H_
#define MOONRING_MODEL_ADAPTER_FOLDER_H_

// An adapter on disk, as PEFT 0.18 writes and reads it: adapter_config.json and
// adapter_model.safetensors, or adapter_model.bin.
//
// Read: peft_type LORA with what adapter.h has: r, rank_pattern, lora_alpha, alpha_pattern,
// lora_dropout, use_rslora, use_dora, target_modules (names, "all-linear", or a regular expression,
// in whose place the modules that the file holds are taken), exclude_modules, layers_to_transform,
// layers_pattern, modules_to_save, ensure_weight_tying; and OFT with r, oft_block_size,
// use_cayley_neumann, num_cayley_neumann_terms. What fixed_parts.h names is read, and does not
// learn here: low-rank weights of embedding and head, trainable_token_indices, lora_bias, bias,
// embeddings saved beside. Every other option that changes what an adapter computes
// (layer_replication, target_parameters, coft, block_share, alora_invocation_tokens, ...;
// initialisations that change the base: olora, corda, loftq) is refused by its name. Options that
// are null, false or empty ask for nothing, and so do fan_in_fan_out of a linear map, options of an
// initialisation alone (eva_config, corda_config, loftq_config) and module_dropout, which PEFT's
// layers keep and never apply.
//
// PiSSA's (init_lora_weights pissa or pissa_niter_N) wants its first A and B beside it, under the
// same names: in pissa_init.safetensors, or in pissa_init/, the folder that LLaMA-Factory leaves
// with pissa_convert.
//
// Written: every field that PEFT 0.18.1 writes, with base_model_name_or_path the path that the base
// was opened by and target_modules sorted; of PiSSA pissa_init.safetensors too. All or nothing, as
// model folders are (staged_files.h).

#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/adapter.h"
#include "model/config/config.h"
#include "model/files/staged_files.h"

namespace moonring::model {

// For a base with this config, its weights in `dtype` on `device`. NOT_FOUND:
// "adapter_name_or_path: no folder 'x'", or the file or tensor that is missing; INVALID_ARGUMENT: a
// damaged file, a tensor that does not belong there, a shape that does not fit the base;
// UNIMPLEMENTED: an option that is not supported. One line, that opens with the path.
absl::StatusOr<std::shared_ptr<Adapter>> ReadAdapter(const std::string& dir,
                                                     const ModelConfig& config,
                                                     at::ScalarType dtype, at::Device device);

// `companions` (tokenizer files) are written beside it. Statuses are the disk's.
absl::Status SaveAdapter(const std::string& dir, const Adapter& adapter,
                         const std::string& base_path,
                         const std::map<std::string, std::string>& companions,
                         Flush flush = Flush::kNow);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_FOLDER_H_
