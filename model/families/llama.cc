#include "model/families/llama.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace moonring::model::llama {
namespace {

struct NamePair {
  absl::string_view gguf, hugging_face;
};
constexpr NamePair kOutsideBlocks[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair kInBlocks[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"},
};

absl::string_view Find(absl::Span<const NamePair> pairs, absl::string_view gguf) {
  for (const NamePair& pair : pairs) {
    if (pair.gguf == gguf) return pair.hugging_face;
  }
  return {};
}

}  // namespace

std::vector<WeightShape> Weights(const ModelConfig& config) {
  std::vector<WeightShape> weights;
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    weights.push_back({absl::StrCat(name, ".weight"), {out, in}});
    if (bias) weights.push_back({absl::StrCat(name, ".bias"), {out}});
  };
  const int64_t d = config.hidden_size, q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  weights.push_back({"model.embed_tokens.weight", {config.vocab_size, d}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = absl::StrCat("model.layers.", layer, ".");
    weights.push_back({block + "input_layernorm.weight", {d}});
    linear(block + "self_attn.q_proj", q, d, config.attention_bias);
    linear(block + "self_attn.k_proj", kv, d, config.attention_bias);
    linear(block + "self_attn.v_proj", kv, d, config.attention_bias);
    linear(block + "self_attn.o_proj", d, q, config.attention_bias);
    weights.push_back({block + "post_attention_layernorm.weight", {d}});
    linear(block + "mlp.gate_proj", config.intermediate_size, d, config.mlp_bias);
    linear(block + "mlp.up_proj", config.intermediate_size, d, config.mlp_bias);
    linear(block + "mlp.down_proj", d, config.intermediate_size, config.mlp_bias);
  }
  weights.push_back({"model.norm.weight", {d}});
  if (!config.tie_word_embeddings) weights.push_back({"lm_head.weight", {config.vocab_size, d}});
  return weights;
}

std::optional<std::string> NameFromGguf(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return std::nullopt;
  const absl::string_view kind = name.substr(dot);  // ".weight" or ".bias"
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  absl::string_view base = name.substr(0, dot);
  if (!absl::ConsumePrefix(&base, "blk.")) {
    const absl::string_view found = Find(kOutsideBlocks, base);
    if (found.empty()) return std::nullopt;
    return absl::StrCat(found, kind);
  }
  const size_t end = base.find('.');
  if (end == absl::string_view::npos || end == 0 || end > 6) return std::nullopt;
  const absl::string_view layer = base.substr(0, end);
  for (const char digit : layer) {
    if (!absl::ascii_isdigit(digit)) return std::nullopt;
  }
  const absl::string_view found = Find(kInBlocks, base.substr(end + 1));
  if (found.empty()) return std::nullopt;
  return absl::StrCat("model.layers.", layer, ".", found, kind);
}

int64_t HeadsInterleavedInGguf(absl::string_view name, const ModelConfig& config) {
  if (absl::StrContains(name, ".self_attn.q_proj.")) return config.heads;
  if (absl::StrContains(name, ".self_attn.k_proj.")) return config.kv_heads;
  return 0;
}

}  // namespace moonring::model::llama
