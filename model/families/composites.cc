// Composite (multimodal) models, of which only the text model is trained. This file has the
// differences of their config.json and weight names from those of the text model alone, which has
// its own file.

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"

namespace moonring::model {

namespace {

// The text model's module name in Transformers since 4.52. Published files may have older names for
// the text model and the head, and both Transformers 4 and 5 save these older names.
constexpr char kText[] = "model.language_model";

StoredNames OlderNames() { return {"language_model.model", "language_model.lm_head"}; }

// Makes the family of a composite model from the family `text` of its text model. A composite model
// has no GGUF form, because GGUF files contain only the text model.
Family Within(Family text, std::string title, std::string architecture, std::string model_type) {
  text.title = std::move(title);
  text.architecture = std::move(architecture);
  text.text_model_type = std::move(text.model_type);
  text.model_type = std::move(model_type);
  WeightNames& names = text.names;
  for (std::string* name : {&names.embedding, &names.norm, &names.layer, &names.layer_table,
                            &names.layer_map, &names.layer_map_norm}) {
    if (!name->empty()) *name = absl::StrCat(kText, ".", absl::StripPrefix(*name, "model."));
  }
  text.stored_names = {{kText, text.names.head}};
  text.gguf = {};
  return text;
}

// The head of Gemma 3's composite models does not cap logits, whatever text_config says.
absl::Status ReadGemma3Vision(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(Gemma3().read(fields, config));
  config.logit_softcap = 0.0;
  return absl::OkStatus();
}

// Published config.json files omit keys that equal Transformers' defaults.
Family Gemma3Vision() {
  Family family = Within(Gemma3(), "Gemma 3 from 4B", "Gemma3ForConditionalGeneration", "gemma3");
  family.text_defaults = R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
                             "num_hidden_layers": 26, "num_attention_heads": 8,
                             "bos_token_id": 2, "eos_token_id": 1})";
  family.stored_names.push_back(OlderNames());
  family.read = ReadGemma3Vision;
  return family;
}

Family Mistral3() {
  Family family =
      Within(Mistral(), "Mistral Small 3.1, 3.2", "Mistral3ForConditionalGeneration", "mistral3");
  family.text_defaults = R"({"bos_token_id": 1, "eos_token_id": 2})";
  family.stored_names.push_back(OlderNames());
  return family;
}

// Ministral 3. Its architecture name is that of Mistral 3; text_config states which of the two text
// models a model has.
Family Ministral3Vision() {
  Family family =
      Within(Ministral3(), "Ministral 3", "Mistral3ForConditionalGeneration", "mistral3");
  family.stored_names.push_back(OlderNames());
  return family;
}

// Qwen3-VL's text model: Qwen3 without windows. In its rotary embedding (mrope) each pair uses the
// position in time, height or width. For a text token all three are equal, so it is the ordinary
// rotary embedding.
absl::Status ReadQwen3Vision(const JsonFields& fields, ModelConfig& config) {
  config.head_norm = HeadNorm::kEachHead;
  if (fields.Find("rope_theta") == nullptr && fields.Find("rope_parameters") == nullptr)
    // The key is required, because its default is 5000000 in Transformers 4.57 and 500000 in 5.23.
    return fields.Missing("rope_theta");
  return ReadAttentionBias(fields, config);
}

Family Qwen3Vision() {
  Family family = Within(Qwen3(), "Qwen3-VL", "Qwen3VLForConditionalGeneration", "qwen3_vl");
  family.text_model_type = "qwen3_vl_text";
  family.max_position_embeddings = 128000;
  family.read = ReadQwen3Vision;
  return family;
}

// Reads Qwen3-VL-MoE's keys. Experts are stacked in two tensors per layer, which are transposed in
// the published files. The weights of a token's experts sum to 1, whatever norm_topk_prob says.
absl::Status ReadQwen3MoeVision(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadQwen3Vision(fields, config));
  RETURN_IF_ERROR(ReadQwenExperts(fields, 60, 4, 1408, config));
  config.experts.normalised = true;
  config.experts.storage = ExpertStorage::kTransposedHalves;
  return absl::OkStatus();
}

Family Qwen3MoeVision() {
  Family family =
      Within(Qwen3Moe(), "Qwen3-VL-MoE", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe");
  family.text_model_type = "qwen3_vl_moe_text";
  family.kv_heads = 0;
  family.max_position_embeddings = 128000;
  family.read = ReadQwen3MoeVision;
  return family;
}

// Qwen3.5's files also have a multi-token prediction layer (mtp.), which is not used in training.
Family Qwen35Vision() {
  return Within(Qwen35(), "Qwen3.5", "Qwen3_5ForConditionalGeneration", "qwen3_5");
}

// Published files stack a layer's experts in two tensors; Transformers saves each expert
// separately.
Family Qwen35MoeVision() {
  return Within(Qwen35Moe(), "Qwen3.5-MoE", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe");
}

Family Gemma4Vision() {
  return Within(Gemma4(), "Gemma 4", "Gemma4ForConditionalGeneration", "gemma4");
}

}  // namespace

const std::vector<Family>& Composites() {
  static const auto* const composites =
      new std::vector<Family>{Gemma3Vision(), Gemma4Vision(),   Mistral3(),     Ministral3Vision(),
                              Qwen3Vision(),  Qwen3MoeVision(), Qwen35Vision(), Qwen35MoeVision()};
  return *composites;
}

}  // namespace moonring::model
