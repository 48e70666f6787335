// InternLM2 and 2.5: a Llama with its own weight names; queries, keys and values are one map whose
// rows are grouped by kv head.

#include "model/families/families.h"

#include "base/status/status_macros.h"

namespace moonring::model {

namespace {

absl::Status ReadInternLm2(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("bias", true));
  config.output_bias = config.qkv_bias;
  return absl::OkStatus();
}

WeightNames NamesOfInternLm2() {
  WeightNames names{.embedding = "model.tok_embeddings", .head = "output"};
  names.in_block[kInputNorm] = "attention_norm";
  names.in_block[kQueryKeyValue] = "attention.wqkv";
  names.in_block[kOutput] = "attention.wo";
  names.in_block[kMlpInputNorm] = "ffn_norm";
  names.in_block[kGate] = "feed_forward.w1";
  names.in_block[kUp] = "feed_forward.w3";
  names.in_block[kDown] = "feed_forward.w2";
  return names;
}

}  // namespace

Family InternLm2() {
  return {
      .title = "InternLM2, InternLM2.5",
      .architecture = "InternLM2ForCausalLM",
      .model_type = "internlm2",
      .pad_token_id = 0,
      .names = NamesOfInternLm2(),
      .qkv_rows = QkvRows::kGrouped,
      .gguf = {.architecture = "internlm2", .interleaved_heads = true},
      .read = ReadInternLm2,
  };
}

}  // namespace moonring::model
