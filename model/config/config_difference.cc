#include "model/config/config_difference.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace moonring::model {
namespace {

bool Near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

class Comparison {
 public:
  void Number(absl::string_view what, double is, double other) {
    if (first_.empty() && !Near(is, other))
      first_ = absl::StrCat(what, " is ", is, ", not ", other);
  }
  template <typename T>
  void Choice(absl::string_view what, T is, T other) {
    Number(what, static_cast<double>(is), static_cast<double>(other));
  }
  // Compares values, such as enumerations, that a message cannot print.
  template <typename T>
  void Kind(absl::string_view what, T is, T other) {
    if (first_.empty() && is != other) first_ = absl::StrCat(what, " differs");
  }
  void List(absl::string_view what, const std::vector<double>& is,
            const std::vector<double>& other) {
    const bool same = std::equal(is.begin(), is.end(), other.begin(), other.end(), Near);
    if (first_.empty() && !same) first_ = absl::StrCat(what, " differ");
  }
  std::string first() const { return first_; }

 private:
  std::string first_;
};

void CompareRotary(const RotaryRule& is, const RotaryRule& other, const std::string& where,
                   Comparison& compare) {
  compare.Kind(absl::StrCat("the rotary scaling", where, ", ", RopeName(is.kind), ","), is.kind,
               other.kind);
  compare.Number(absl::StrCat("rope_theta", where), is.theta, other.theta);
  compare.Number("the number of rotated features", is.dim, other.dim);
  compare.Kind("the pairing of rotated features (rope_interleave)", is.interleaved,
               other.interleaved);
  compare.Number("the growth of queries", is.query_growth, other.query_growth);
  if (is.kind == RopeKind::kDefault) return;
  compare.Number("the rotary scaling's factor", is.factor, other.factor);
  compare.Number("the rotary scaling's attention_factor", is.attention_factor,
                 other.attention_factor);
  if (is.kind == RopeKind::kLinear) return;
  compare.Number("original_max_position_embeddings", is.original_length, other.original_length);
  compare.Number("the number of rotated pairs", is.turning_pairs, other.turning_pairs);
  if (is.kind == RopeKind::kLlama3) {
    compare.Number("low_freq_factor", is.low_freq_factor, other.low_freq_factor);
    compare.Number("high_freq_factor", is.high_freq_factor, other.high_freq_factor);
  }
  if (is.kind == RopeKind::kYarn) {
    compare.Number("beta_fast", is.beta_fast, other.beta_fast);
    compare.Number("beta_slow", is.beta_slow, other.beta_slow);
    compare.Choice("truncate", is.truncate, other.truncate);
  }
  compare.List("longrope's factors", is.short_factor, other.short_factor);
  compare.List("longrope's factors", is.long_factor, other.long_factor);
}

void CompareLayer(const ModelConfig& is, const ModelConfig& other, int64_t layer,
                  Comparison& compare) {
  const LayerRule &a = is.layer_rules[layer], &b = other.layer_rules[layer];
  const std::string where = absl::StrCat(" of layer ", layer);
  compare.Kind(absl::StrCat("the kind", where), a.mixer, b.mixer);
  compare.Number(absl::StrCat("the number of kv heads", where), a.kv_heads, b.kv_heads);
  compare.Number(absl::StrCat("the head size", where), a.head_dim, b.head_dim);
  compare.Choice(absl::StrCat("whether there are experts", where), a.experts, b.experts);
  compare.Choice(absl::StrCat("whether there is an MLP", where), a.mlp, b.mlp);
  if (a.mlp && !a.experts)
    compare.Number(absl::StrCat("the MLP's width", where), a.intermediate_size,
                   b.intermediate_size);
  compare.Number(absl::StrCat("the window", where), a.window, b.window);
  compare.Kind(absl::StrCat("the use of rotary embedding", where), a.rotary < 0, b.rotary < 0);
  if (a.rotary >= 0 && b.rotary >= 0)
    CompareRotary(is.rotaries[a.rotary], other.rotaries[b.rotary], where, compare);
  compare.Number(absl::StrCat("the source of keys and values", where), a.keys_of, b.keys_of);
  compare.Kind(absl::StrCat("whether keys are values", where), a.keys_are_values,
               b.keys_are_values);
}

void CompareExperts(const ExpertRule& a, const ExpertRule& b, Comparison& compare) {
  compare.Number("the number of experts", a.count, b.count);
  compare.Number("num_experts_per_tok", a.chosen, b.chosen);
  compare.Number("an expert's width", a.intermediate, b.intermediate);
  compare.Number("the shared expert's width", a.shared, b.shared);
  compare.Number("the experts' input width", a.width, b.width);
  compare.Choice("norm_topk_prob", a.normalised, b.normalised);
  compare.Kind("the router's score", a.score, b.score);
  compare.Number("routed_scaling_factor", a.scale, b.scale);
  compare.Number("n_group", a.groups, b.groups);
  compare.Number("topk_group", a.chosen_groups, b.chosen_groups);
  compare.Choice("whether experts have biases", a.bias, b.bias);
  compare.Number("swiglu_limit", a.clamped.limit, b.clamped.limit);
  compare.Number("swiglu_alpha", a.clamped.slope, b.clamped.slope);
  compare.Choice("whether there is a dense MLP in parallel to experts", a.beside_dense,
                 b.beside_dense);
}

void CompareSizes(const std::vector<MixerSize>& is, const std::vector<MixerSize>& other,
                  Comparison& compare) {
  const auto number = [](const MixerSize& size) {
    return std::visit([](auto value) { return static_cast<double>(value); }, size.value);
  };
  for (size_t i = 0; i < is.size(); ++i) compare.Number(is[i].key, number(is[i]), number(other[i]));
}

void CompareModel(const ModelConfig& a, const ModelConfig& b, Comparison& compare) {
  compare.Number("vocab_size", a.vocab_size, b.vocab_size);
  compare.Number("hidden_size", a.hidden_size, b.hidden_size);
  compare.Number("the number of layers", a.layers, b.layers);
  compare.Number("the number of heads", a.heads, b.heads);
  compare.Number("max_position_embeddings", a.max_position_embeddings, b.max_position_embeddings);
  compare.Number("the norms' eps", a.rms_norm_eps, b.rms_norm_eps);
  compare.Choice("whether norms add one", a.norm_adds_one, b.norm_adds_one);
  compare.Kind("the norm of queries and keys", a.head_norm, b.head_norm);
  compare.Choice("whether heads are gated", a.gated_heads, b.gated_heads);
  compare.Choice("whether values are normed", a.value_norm, b.value_norm);
  compare.Choice("whether the head is tied", a.tie_word_embeddings, b.tie_word_embeddings);
  compare.Choice("whether queries, keys and values have biases", a.qkv_bias, b.qkv_bias);
  compare.Choice("whether attention's output has a bias", a.output_bias, b.output_bias);
  compare.Choice("whether MLPs have biases", a.mlp_bias, b.mlp_bias);
  compare.Kind("the activation", a.activation, b.activation);
  compare.Number("the scale of attention's scores", a.score_scale, b.score_scale);
  compare.Number("attn_logit_softcapping", a.score_softcap, b.score_softcap);
  compare.Number("the embedding's scale", a.embedding_scale, b.embedding_scale);
  compare.Number("the residual scale", a.residual_scale, b.residual_scale);
  compare.Number("the logits' scale", a.logit_scale, b.logit_scale);
  compare.Number("final_logit_softcapping", a.logit_softcap, b.logit_softcap);
  compare.Number("the width of a second embedding", a.layer_inputs.width, b.layer_inputs.width);
}

}  // namespace

std::string ConfigDifference(const ModelConfig& is, const ModelConfig& other) {
  Comparison compare;
  CompareModel(is, other, compare);
  if (!compare.first().empty()) return compare.first();
  for (int64_t layer = 0; layer < is.layers; ++layer) CompareLayer(is, other, layer, compare);
  CompareExperts(is.experts, other.experts, compare);
  std::set<const Mixer*> compared = {nullptr};
  for (const LayerRule& layer : is.layer_rules) {
    if (!compared.insert(layer.mixer).second || layer.mixer->sizes == nullptr) continue;
    CompareSizes(layer.mixer->sizes(is), layer.mixer->sizes(other), compare);
  }
  return compare.first();
}

}  // namespace moonring::model
