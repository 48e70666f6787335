// Mistral 7B, Nemo, Small: a Llama, optionally with a sliding window.

#include "model/families/families.h"

#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadMistral(const JsonFields& fields, ModelConfig& config) {
  return ReadWindow(fields, 4096, config);
}

}  // namespace

Family Mistral() {
  return {
      .title = "Mistral 7B, Nemo, Small",
      .architecture = "MistralForCausalLM",
      .model_type = "mistral",
      .kv_heads = 8,
      .max_position_embeddings = 131072,
      .scales_rope = false,
      .names = LlamaNames(),
      .gguf = {.architecture = "llama", .interleaved_heads = true},
      .read = ReadMistral,
  };
}

}  // namespace moonring::model
