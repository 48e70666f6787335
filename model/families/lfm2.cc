// LFM2: most layers mix by a short convolution, the rest by softmax attention with queries and keys
// normalised per head.

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Reads full_attn_idxs, the numbers of the layers with softmax attention; if the key is missing,
// all layers have it.
absl::Status ReadLayersOfLfm2(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* list = fields.Find("full_attn_idxs");
  std::set<int64_t> attending;
  if (list != nullptr) {
    const absl::Status wrong = fields.Wrong(
        "full_attn_idxs", absl::StrCat("a list of layers from 0 to ", config.layers - 1));
    if (!list->is_array()) return wrong;
    for (const nlohmann::json& layer : *list) {
      if (!layer.is_number_unsigned() ||
          layer.get<uint64_t>() >= static_cast<uint64_t>(config.layers))
        return wrong;
      attending.insert(layer.get<int64_t>());
    }
  }
  return ReadMixers(
      fields, kGatedConvolution,
      [&](int64_t layer) { return list == nullptr || attending.contains(layer); }, config);
}

// Computes the MLP's size. It is the file's value if block_auto_adjust_ff_dim is false; otherwise
// two thirds of it, times a factor, rounded up to a multiple of a number in the file.
absl::Status ReadFeatures(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool adjusted, fields.Bool("block_auto_adjust_ff_dim", true));
  if (!adjusted) return absl::OkStatus();
  int64_t features = 2 * config.intermediate_size / 3;
  const bool as_they_are =
      fields.Has("block_ffn_dim_multiplier") && fields.Find("block_ffn_dim_multiplier") == nullptr;
  if (!as_they_are) {
    ASSIGN_OR_RETURN(const double factor, ReadPositive(fields, "block_ffn_dim_multiplier", 1.0));
    ASSIGN_OR_RETURN(const int64_t multiple, ReadSize(fields, "block_multiple_of", 256));
    const double scaled = factor * static_cast<double>(features);
    if (scaled > static_cast<double>(kLargestSize - multiple))
      return fields.Wrong("block_ffn_dim_multiplier", "a factor that leaves the MLP below 2^31");
    features = (static_cast<int64_t>(scaled) + multiple - 1) / multiple * multiple;
  }
  if (features < 1)
    return fields.Wrong("intermediate_size", "a size of which two thirds leave a feature");
  config.intermediate_size = features;
  for (LayerRule& layer : config.layer_rules) layer.intermediate_size = features;
  return absl::OkStatus();
}

absl::Status ReadLfm2(const JsonFields& fields, ModelConfig& config) {
  config.head_norm = HeadNorm::kEachHead;
  ASSIGN_OR_RETURN(config.tie_word_embeddings,
                   fields.Bool("tie_embedding", config.tie_word_embeddings));
  ASSIGN_OR_RETURN(config.convolution.taps, ReadSize(fields, "conv_L_cache", 3, kMostTaps));
  ASSIGN_OR_RETURN(config.convolution.bias, fields.Bool("conv_bias", false));
  RETURN_IF_ERROR(ReadFeatures(fields, config));
  return ReadLayersOfLfm2(fields, config);
}

WeightNames NamesOfLfm2() {
  WeightNames names = LlamaNames();
  names.norm = "model.embedding_norm";
  names.in_block[kInputNorm] = "operator_norm";
  names.in_block[kQueryNorm] = "self_attn.q_layernorm";
  names.in_block[kKeyNorm] = "self_attn.k_layernorm";
  names.in_block[kOutput] = "self_attn.out_proj";
  names.in_block[kConvolutionInput] = "conv.in_proj";
  names.in_block[kConvolutionFilter] = "conv.conv";
  names.in_block[kConvolutionOutput] = "conv.out_proj";
  names.in_block[kMlpInputNorm] = "ffn_norm";
  names.in_block[kGate] = "feed_forward.w1";
  names.in_block[kUp] = "feed_forward.w3";
  names.in_block[kDown] = "feed_forward.w2";
  return names;
}

}  // namespace

Family Lfm2() {
  return {
      .title = "LFM2",
      .architecture = "Lfm2ForCausalLM",
      .model_type = "lfm2",
      .kv_heads = 8,
      .rms_norm_eps = 1e-5,
      .rope_theta = 1e6,
      .max_position_embeddings = 128000,
      .tied = true,
      .pad_token_id = 0,
      .eps_key = "norm_eps",
      .intermediate_key = "block_ff_dim",
      .names = NamesOfLfm2(),
      .gguf = {.architecture = "lfm2", .norm = "token_embd_norm"},
      .read = ReadLfm2,
  };
}

}  // namespace moonring::model
