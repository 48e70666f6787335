#ifndef MOONRING_MODEL_GGUF_GGUF_KEYS_H_
#define MOONRING_MODEL_GGUF_GGUF_KEYS_H_

// GGUF metadata keys that describe a model's architecture, without the prefix with the
// architecture's name ("block_count" of "llama.block_count"). Used for reading (gguf_config.cc) and
// writing (config_to_gguf.cc).

namespace moonring::model::gguf_key {

inline constexpr char kAttentionHeadCount[] = "attention.head_count";
inline constexpr char kAttentionHeadCountKv[] = "attention.head_count_kv";
inline constexpr char kAttentionKeyLength[] = "attention.key_length";
inline constexpr char kAttentionKeyLengthMla[] = "attention.key_length_mla";
inline constexpr char kAttentionKvLoraRank[] = "attention.kv_lora_rank";
inline constexpr char kAttentionLayerNormRmsEpsilon[] = "attention.layer_norm_rms_epsilon";
inline constexpr char kAttentionQLoraRank[] = "attention.q_lora_rank";
inline constexpr char kAttentionScale[] = "attention.scale";
inline constexpr char kAttentionSlidingWindow[] = "attention.sliding_window";
inline constexpr char kAttentionValueLength[] = "attention.value_length";
inline constexpr char kAttentionValueLengthMla[] = "attention.value_length_mla";
inline constexpr char kAttnLogitSoftcapping[] = "attn_logit_softcapping";
inline constexpr char kBlockCount[] = "block_count";
inline constexpr char kContextLength[] = "context_length";
inline constexpr char kEmbeddingLength[] = "embedding_length";
inline constexpr char kEmbeddingScale[] = "embedding_scale";
inline constexpr char kExpertCount[] = "expert_count";
inline constexpr char kExpertFeedForwardLength[] = "expert_feed_forward_length";
inline constexpr char kExpertGatingFunc[] = "expert_gating_func";
inline constexpr char kExpertGroupCount[] = "expert_group_count";
inline constexpr char kExpertGroupUsedCount[] = "expert_group_used_count";
inline constexpr char kExpertSharedCount[] = "expert_shared_count";
inline constexpr char kExpertSharedFeedForwardLength[] = "expert_shared_feed_forward_length";
inline constexpr char kExpertUsedCount[] = "expert_used_count";
inline constexpr char kExpertWeightsNorm[] = "expert_weights_norm";
inline constexpr char kExpertWeightsScale[] = "expert_weights_scale";
inline constexpr char kFeedForwardLength[] = "feed_forward_length";
inline constexpr char kFinalLogitSoftcapping[] = "final_logit_softcapping";
inline constexpr char kFullAttentionInterval[] = "full_attention_interval";
inline constexpr char kLeadingDenseBlockCount[] = "leading_dense_block_count";
inline constexpr char kLogitScale[] = "logit_scale";
inline constexpr char kResidualScale[] = "residual_scale";
inline constexpr char kRopeDimensionCount[] = "rope.dimension_count";
inline constexpr char kRopeDimensionSections[] = "rope.dimension_sections";
inline constexpr char kRopeFreqBase[] = "rope.freq_base";
inline constexpr char kRopeFreqBaseSwa[] = "rope.freq_base_swa";
inline constexpr char kRopeScalingAttnFactor[] = "rope.scaling.attn_factor";
inline constexpr char kRopeScalingFactor[] = "rope.scaling.factor";
inline constexpr char kRopeScalingOriginalContextLength[] = "rope.scaling.original_context_length";
inline constexpr char kRopeScalingType[] = "rope.scaling.type";
inline constexpr char kRopeScalingYarnBetaFast[] = "rope.scaling.yarn_beta_fast";
inline constexpr char kRopeScalingYarnBetaSlow[] = "rope.scaling.yarn_beta_slow";
inline constexpr char kRopeScalingYarnLogMultiplier[] = "rope.scaling.yarn_log_multiplier";
inline constexpr char kShortconvLCache[] = "shortconv.l_cache";
inline constexpr char kSsmConvKernel[] = "ssm.conv_kernel";
inline constexpr char kSsmGroupCount[] = "ssm.group_count";
inline constexpr char kSsmInnerSize[] = "ssm.inner_size";
inline constexpr char kSsmStateSize[] = "ssm.state_size";
inline constexpr char kSsmTimeStepRank[] = "ssm.time_step_rank";
inline constexpr char kVocabSize[] = "vocab_size";

}  // namespace moonring::model::gguf_key

#endif  // MOONRING_MODEL_GGUF_GGUF_KEYS_H_
