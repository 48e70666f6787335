#ifndef MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_
#define MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_

// How config.json says what latent attention is (LatentRule): q_lora_rank (null: none),
// kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim. Errors as ParseConfig says.

#include <cstdint>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// What is taken where a file does not say; `query_rank` 0: queries are a map of the stream.
struct LatentSizes {
  int64_t query_rank = 0, key_value_rank = 0, plain_dim = 0, rotary_dim = 0, value_dim = 0;
};

// The rule, and what follows from it: the sizes of heads, the scores' scale, the rotary, by
// rope_interleave of neighbours or of halves; attention_bias. `turns` false: no layer turns, the
// features that would stand as the others do.
absl::Status ReadLatent(const JsonFields& fields, const LatentSizes& sizes, bool turns,
                        ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_LATENT_CONFIG_H_
