#ifndef MOONRING_MODEL_FAMILIES_FAMILIES_H_
#define MOONRING_MODEL_FAMILIES_FAMILIES_H_

// The families, a file each. What is shared between two is declared here too.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/config/family.h"

namespace moonring::model {

// All of them, in the order in which a list of them is shown.
const std::vector<Family>& Families();

// Text models inside models that also see or hear.
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

WeightNames LlamaNames();  // what most others have too
WeightNames Qwen3Names();
// A mixture of experts, each by itself or all in two tensors, and one that sees every token.
WeightNames WithQwenExperts(WeightNames names);
WeightNames Qwen3HybridNames();  // of linear attention's, those that Qwen3-Next and 3.5 share
WeightNames GemmaNames();
WeightNames GlmNames();
void AddLatentNames(WeightNames& names);  // DeepSeek-V3's, for ReadLatent
// DeepSeek-V3's, for ReadGroupedExperts; `mixture` is the module that has them.
void AddGroupedExpertNames(WeightNames& names, const std::string& mixture = "mlp");
absl::Status ReadGemma(const JsonFields& fields, ModelConfig& config);  // what all of them have
absl::Status ReadGemma2(const JsonFields& fields,
                        ModelConfig& config);  // and what the later ones have besides
absl::Status ReadGranite(const JsonFields& fields, ModelConfig& config);  // the factors, the biases
absl::Status ReadOlmo2(const JsonFields& fields, ModelConfig& config);
absl::Status ReadQwen3Hybrid(const JsonFields& fields, ModelConfig& config);  // all but the MLP

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_FAMILIES_H_
