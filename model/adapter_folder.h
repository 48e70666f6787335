#ifndef MOONRING_MODEL_ADAPTER_FOLDER_H_
#define MOONRING_MODEL_ADAPTER_FOLDER_H_

// An adapter on disk, as PEFT 0.18 writes and reads it: adapter_config.json and
// adapter_model.safetensors, or adapter_model.bin.
//
// Options that are read: for peft_type LORA those of adapter.h, which are r, rank_pattern,
// lora_alpha, alpha_pattern, lora_dropout, use_rslora, use_dora, target_modules (names,
// "all-linear", or a regular expression; with a regular expression, the adapted modules are those
// that have tensors in the file), exclude_modules, layers_to_transform, layers_pattern,
// modules_to_save, ensure_weight_tying; for peft_type OFT they are r, oft_block_size,
// use_cayley_neumann, num_cayley_neumann_terms. The weights listed in fixed_parts.h are read and
// stay frozen: low-rank weights of embedding and head, trainable_token_indices, lora_bias, bias,
// saved embeddings. Every other option that changes what an adapter computes (layer_replication,
// target_parameters, coft, block_share, alora_invocation_tokens, ...; initialisations that change
// the base: olora, corda, loftq) is refused with an error that names it. Options that are null,
// false or empty are ignored. Also ignored are fan_in_fan_out of a linear map, options that only
// affect initialisation (eva_config, corda_config, loftq_config), and module_dropout, which PEFT's
// layers store and never apply.
//
// PiSSA (init_lora_weights pissa or pissa_niter_N) needs its initial A and B in the same folder,
// under the same names: in pissa_init.safetensors, or in pissa_init/, the folder that LLaMA-Factory
// writes with pissa_convert.
//
// SaveAdapter writes every field that PEFT 0.18.1 writes. base_model_name_or_path is the path by
// which the base model was opened, and target_modules is sorted. For PiSSA it also writes
// pissa_init.safetensors. The folder appears complete or not at all, as model folders do
// (staged_files.h).

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

// Reads an adapter for a base model with this config; the adapter's weights get `dtype` and
// `device`. NOT_FOUND if the folder ("adapter_name_or_path: no folder 'x'"), a file or a tensor is
// missing; INVALID_ARGUMENT for a damaged file, an unexpected tensor, or a shape that does not fit
// the base model; UNIMPLEMENTED for an option that is not supported. The message is one line that
// begins with the path.
absl::StatusOr<std::shared_ptr<Adapter>> ReadAdapter(const std::string& dir,
                                                     const ModelConfig& config,
                                                     at::ScalarType dtype, at::Device device);

// Writes the adapter, and next to it the files `companions` (file name -> text; the tokenizer's
// files). Fails only if the disk fails.
absl::Status SaveAdapter(const std::string& dir, const Adapter& adapter,
                         const std::string& base_path,
                         const std::map<std::string, std::string>& companions,
                         Flush flush = Flush::kNow);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_FOLDER_H_
