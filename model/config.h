#ifndef MOONRING_MODEL_CONFIG_H_
#define MOONRING_MODEL_CONFIG_H_

// What a model is: Hugging Face's config.json as a validated struct. Both shapes are read, that of Transformers 4 (rope_theta and
// rope_scaling at the top level) and that of Transformers 5 (rope_parameters: {rope_theta, rope_type}).
//
// Invariants of a parsed config: every size is positive; kv_heads divides heads; head_dim is even (rotary pairs);
// token ids, where there are any, are below vocab_size.
//
// Where a key is missing, what Transformers takes for a model of that family is taken; the five sizes (vocab_size, hidden_size,
// intermediate_size, num_hidden_layers, num_attention_heads) must be there.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM" or "MistralForCausalLM"
  std::string model_type;    // "llama" or "mistral"
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-6, rope_theta = 10000.0;
  int64_t max_position_embeddings = 2048;
  bool tie_word_embeddings = false, attention_bias = false, mlp_bias = false;
  int64_t sliding_window = 0;  // tokens that a query sees, itself among them; 0: all before it. Mistral's alone: Llama ignores the key
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;  // none, one or several
  std::string json;                    // the text as it came
};

// Fails with INVALID_ARGUMENT (broken JSON, a missing key, a wrong type, sizes that contradict one another) or UNIMPLEMENTED
// (another architecture, activation or rope scaling), in one line that opens with `where`: the file's path.
absl::StatusOr<ModelConfig> ParseConfig(absl::string_view json, absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_H_
