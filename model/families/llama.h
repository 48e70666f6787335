#ifndef MOONRING_MODEL_FAMILIES_LLAMA_H_
#define MOONRING_MODEL_FAMILIES_LLAMA_H_

// The Llama family (Llama 2 and 3 without rope scaling, SmolLM2, ...): the names and shapes of its weights, at Hugging Face and in GGUF.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/config.h"
#include "model/weight_shape.h"

namespace moonring::model::llama {

inline constexpr absl::string_view kArchitecture = "LlamaForCausalLM";
inline constexpr absl::string_view kModelType = "llama";
inline constexpr absl::string_view kGgufArchitecture = "llama";  // general.architecture

std::vector<WeightShape> Weights(const ModelConfig& config);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; nothing where the name is not one of the family's.
std::optional<std::string> NameFromGguf(absl::string_view name);

// GGUF's rotary embedding turns neighbouring rows (2i, 2i+1) of a head, Hugging Face's turns rows (i, i + head_dim/2), so the rows of
// q_proj and k_proj lie in another order there. Gives the number of heads to reorder under this Hugging Face name; 0: as it is.
int64_t HeadsInterleavedInGguf(absl::string_view name, const ModelConfig& config);

}  // namespace moonring::model::llama

#endif  // MOONRING_MODEL_FAMILIES_LLAMA_H_
