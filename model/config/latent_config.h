#ifndef MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_
#define MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_

// Reads latent attention (LatentRule) from config.json: q_lora_rank (null: none), kv_lora_rank,
// qk_nope_head_dim, qk_rope_head_dim, v_head_dim. Errors as in ParseConfig.

#include <cstdint>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// Default sizes; `query_rank` 0: queries are a map of the stream.
struct LatentSizes {
  int64_t query_rank = 0, key_value_rank = 0, plain_dim = 0, rotary_dim = 0, value_dim = 0;
};

// Reads the rule and derives from it the sizes of heads, the scores' scale and the rotary, which
// rotates neighbours or halves by rope_interleave; also reads attention_bias. With `turns` false no
// layer has rotary embedding, and the rotary features are treated like the others.
absl::Status ReadLatent(const JsonFields& fields, const LatentSizes& sizes, bool turns,
                        ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_
