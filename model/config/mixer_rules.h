#ifndef MOONRING_MODEL_CONFIG_MIXER_RULES_H_
#define MOONRING_MODEL_CONFIG_MIXER_RULES_H_

// The sizes and options of each kind of mixer, as a model's config has them. All layers with a
// mixer have the same.

#include <cstdint>
#include <limits>

namespace moonring::model {

// The activation of the gate that multiplies a norm's result (blocks/gated_norm.h).
enum class NormGate { kSilu, kSigmoid };

// Properties of layers with a gated delta rule, a form of linear attention (mixers/gated_delta.cc).
struct DeltaRule {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  // the dims are per head
  int64_t taps = 0;         // of the convolution before the rule
  double beta_scale = 1.0;  // beta is in (0, beta_scale)
  double norm_eps = 0.0;    // of the norm after the rule
  bool by_channel = false;  // one decay per key channel instead of one per head
  int64_t rank = 0;         // decay and gate are low-rank products of this rank; 0: single maps
  NormGate gate = NormGate::kSilu;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t decays() const { return value_heads * (by_channel ? key_dim : 1); }
};

// Properties of short convolution layers (mixers/gated_convolution.cc).
struct ConvolutionRule {
  int64_t taps = 0;
  bool bias = false;  // whether the two maps and the convolution have biases
};

// Properties of selective state space layers (mixers/state_space.cc).
struct StateSpaceRule {
  int64_t heads = 0, head_dim = 0;  // of the input u
  // B and C have `groups` groups of `states` features; each group is used by heads / groups heads.
  int64_t groups = 0, states = 0;
  int64_t taps = 0;          // of the convolution before the recurrence
  bool filter_bias = false;  // whether that convolution has a bias
  bool map_bias = false;     // whether the input and output maps have biases
  double least_step = 0.0, most_step = std::numeric_limits<double>::infinity();
  double norm_eps = 0.0;  // of the norm after the recurrence, which acts per group

  int64_t width() const { return heads * head_dim; }
  int64_t channels() const { return width() + 2 * groups * states; }
};

// Properties of softmax attention with keys and values from a latent (mixers/latent_attention.cc).
struct LatentRule {
  int64_t key_value_rank = 0;  // dim of the latent of keys and values; 0: no latent
  int64_t query_rank = 0;      // dim of the queries' latent; 0: no latent
  int64_t plain_dim = 0;       // features of a query and a key without rotary embedding
  int64_t rotary_dim = 0;      // features with rotary embedding; all heads share the key's
  int64_t value_dim = 0;       // features of a value
  double norm_eps = 1e-6;      // of the latents' norms

  int64_t key_dim() const { return plain_dim + rotary_dim; }
};

// One of each; those of mixers that no layer has are unused.
struct MixerRules {
  DeltaRule delta;
  ConvolutionRule convolution;
  StateSpaceRule state_space;
  LatentRule latent;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_MIXER_RULES_H_
