// Qwen2 and 2.5, DeepSeek's distilled Qwens: a Llama with biases on queries, keys and values; the
// last layers may have a sliding window.

#include "model/families/families.h"

#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadQwen2(const JsonFields& fields, ModelConfig& config) {
  config.qkv_bias = true;
  return ReadQwenWindow(fields, config);
}

}  // namespace

Family Qwen2() {
  return {
      .title = "Qwen2, Qwen2.5, DeepSeek-R1-Distill-Qwen",
      .architecture = "Qwen2ForCausalLM",
      .model_type = "qwen2",
      .kv_heads = 32,
      .max_position_embeddings = 32768,
      .names = LlamaNames(),
      .gguf = {.architecture = "qwen2"},
      .read = ReadQwen2,
  };
}

}  // namespace moonring::model
