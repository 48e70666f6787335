#ifndef MOONRING_MODEL_FAMILIES_LATENT_CONFIG_H_
#define MOONRING_MODEL_FAMILIES_LATENT_CONFIG_H_

// Reads latent attention (LatentRule) from config.json: q_lora_rank (null: queries have no latent),
// kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim. Returns the errors of ParseConfig
// (parse_config.h).

#include <cstdint>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// Default sizes. `query_rank` 0: queries are computed from the residual stream, without a latent.
struct LatentSizes {
  int64_t query_rank = 0, key_value_rank = 0, plain_dim = 0, rotary_dim = 0, value_dim = 0;
};

// Reads config.latent, gives every layer latent attention, and derives from it the sizes of heads,
// the scale of attention scores and the rotary embedding. rope_interleave decides whether pairs of
// neighbours or the two halves of a head are rotated. Also reads attention_bias. With `turns` false
// no layer has rotary embedding, and the features for it are treated like the other features.
absl::Status ReadLatent(const JsonFields& fields, const LatentSizes& sizes, bool turns,
                        ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_LATENT_CONFIG_H_
