#ifndef MOONRING_MODEL_FAMILIES_FAMILIES_H_
#define MOONRING_MODEL_FAMILIES_FAMILIES_H_

// Declares the model families, each defined in its own file, and functions that two or more
// families share.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/config/family.h"

namespace moonring::model {

// All families, in the order in which lists show them.
const std::vector<Family>& Families();

// Families of multimodal models, of which the text model is trained.
const std::vector<Family>& Composites();

Family Llama();
Family Mistral();
Family Ministral3();
Family SmolLm3();
Family Qwen2();
Family Qwen3();
Family Gemma();
Family Gemma2();
Family Gemma3();
Family Gemma4();
Family Phi3();
Family Olmo2();
Family Olmo3();
Family Granite();
Family GraniteHybrid();
Family Glm();
Family Glm4();
Family InternLm2();
Family InternLm3();
Family SeedOss();
Family Mixtral();
Family Qwen2Moe();
Family Qwen3Moe();
Family Glm4Moe();
Family GptOss();
Family Qwen3Next();
Family Qwen35();
Family Qwen35Moe();
Family Lfm2();
Family OlmoHybrid();
Family DeepseekV3();
Family KimiLinear();
Family NemotronH();

WeightNames LlamaNames();  // most other families use them too
WeightNames Qwen3Names();
// Adds a mixture of experts, stored one by one or stacked in two tensors, and a shared expert.
WeightNames WithQwenExperts(WeightNames names);
WeightNames Qwen3HybridNames();  // the linear attention names shared by Qwen3-Next and Qwen3.5
WeightNames GemmaNames();
WeightNames GlmNames();
void AddLatentNames(WeightNames& names);  // DeepSeek-V3's, for ReadLatent
// DeepSeek-V3's names, for ReadGroupedExperts; `mixture` is the module that contains them.
void AddGroupedExpertNames(WeightNames& names, const std::string& mixture = "mlp");
// Reads config.json keys that all Gemma families have.
absl::Status ReadGemma(const JsonFields& fields, ModelConfig& config);
// Reads config.json keys that Gemma 2 and later add.
absl::Status ReadGemma2(const JsonFields& fields, ModelConfig& config);
// Reads Granite's scale factors and biases.
absl::Status ReadGranite(const JsonFields& fields, ModelConfig& config);
absl::Status ReadOlmo2(const JsonFields& fields, ModelConfig& config);
// Reads all keys that Qwen3-Next and Qwen3.5 share, except those of the MLP.
absl::Status ReadQwen3Hybrid(const JsonFields& fields, ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_FAMILIES_H_
