#ifndef MOONRING_MODEL_CONFIG_CONFIG_FIELDS_H_
#define MOONRING_MODEL_CONFIG_CONFIG_FIELDS_H_

// Functions that read config.json keys, which several families share, into a ModelConfig. They
// return the errors of ParseConfig (parse_config.h).

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// Largest allowed size; the product of two such sizes fits in 64 bits.
inline constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();

inline constexpr int64_t kMostTaps = 1024;  // longest allowed short convolution

// Reads an integer from 1 to `most`. Returns `otherwise` if the key is missing; an error if
// `otherwise` is absent too.
absl::StatusOr<int64_t> ReadSize(const JsonFields& fields, absl::string_view key,
                                 std::optional<int64_t> otherwise, int64_t most = kLargestSize);

// Reads a finite number above 0; `otherwise` if the key is missing.
absl::StatusOr<double> ReadPositive(const JsonFields& fields, absl::string_view key,
                                    double otherwise);

// Reads a softcap (cap tanh(x / cap)); 0 if the key is missing or null.
absl::StatusOr<double> ReadSoftcap(const JsonFields& fields, absl::string_view key);

// Reads attention_bias, which applies to the query, key, value and output maps.
absl::Status ReadAttentionBias(const JsonFields& fields, ModelConfig& config);

// Reads the activation from `key` (hidden_act in most families).
absl::Status ReadActivation(const JsonFields& fields, absl::string_view key,
                            absl::string_view otherwise, ModelConfig& config);

// Reads sliding_window, for all layers: `otherwise` if the key is missing, no window if it is null.
absl::Status ReadWindow(const JsonFields& fields, std::optional<int64_t> otherwise,
                        ModelConfig& config);

// Reads layer_types, a list of "full_attention" and "sliding_attention". Sliding layers get
// `window`. If the list is missing, `slides(layer)` decides which layers slide.
absl::Status ReadLayerTypes(const JsonFields& fields, int64_t window,
                            bool (*slides)(const JsonFields& fields, int64_t layer),
                            ModelConfig& config);

// Reads layer_types, a list of "full_attention" and the `layer_type` of `mixer`. Layers of that
// type get the mixer and no rotary embedding. If the list is missing, `attends(layer)` decides
// which layers have full attention.
absl::Status ReadMixers(const JsonFields& fields, const Mixer& mixer,
                        const std::function<bool(int64_t layer)>& attends, ModelConfig& config);

// Default sizes for keys that config.json lacks.
struct DeltaSizes {
  int64_t key_heads = 16, value_heads = 32, key_dim = 128, value_dim = 128;
};
// Reads the keys of the gated delta rule: linear_num_key_heads, linear_num_value_heads,
// linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim. The norm after the rule has
// the same eps as the other norms. The convolution's activation is hidden_act, which must be SiLU.
absl::Status ReadDeltaRule(const JsonFields& fields, const DeltaSizes& sizes, ModelConfig& config);
absl::Status CheckDeltaActivation(const JsonFields& fields, const ModelConfig& config);

// Reads full_attention_interval (default 4), for files without layer_types. The last layer of each
// interval has softmax attention.
absl::StatusOr<int64_t> ReadAttentionInterval(const JsonFields& fields);

// Reads Qwen's use_sliding_window, sliding_window, max_window_layers and layer_types.
absl::Status ReadQwenWindow(const JsonFields& fields, ModelConfig& config);

// Reads Qwen's num_experts (num_local_experts in Transformers 5's files), num_experts_per_tok,
// moe_intermediate_size, norm_topk_prob, decoder_sparse_step, mlp_only_layers.
absl::Status ReadQwenExperts(const JsonFields& fields, int64_t count, int64_t chosen,
                             int64_t intermediate, ModelConfig& config);

// A family's default numbers of experts and groups, used for keys that config.json lacks.
struct GroupedExperts {
  int64_t count, chosen, intermediate, groups, chosen_groups;
  double scale;
  int64_t dense_layers;
};

// Reads DeepSeek-V3's keys of a mixture of experts, under the family's names (ExpertKeys):
// n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, n_group,
// topk_group, norm_topk_prob, routed_scaling_factor and first_k_dense_replace. Router scores are
// sigmoids; the router's matrix product is in fp32 (fp64 for fp64).
absl::Status ReadGroupedExperts(const JsonFields& fields, const GroupedExperts& otherwise,
                                ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_FIELDS_H_
