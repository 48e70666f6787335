#ifndef MOONRING_LUA_SERVE_RESULTS_H_
#define MOONRING_LUA_SERVE_RESULTS_H_

// Results of forward_backward, forward and sampling as protobuf messages, which newer SDKs expect.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace moonring::serve {

using Metrics = std::map<std::string, double>;
using LossOutput = std::map<std::string, at::Tensor>;  // of one datum, [N] or [N, ...]

// ForwardBackwardOutput. Numbers are written as float32 or int64. INVALID_ARGUMENT if two datums
// have different fields, a metric's name is not NAME:REDUCTION (the SDK combines the parts of a
// call by the reduction), or a metric is not finite.
absl::StatusOr<std::string> WriteLossResult(const Metrics& metrics,
                                            const std::vector<LossOutput>& outputs);

// The likeliest tokens at each of `length` positions, in rows of k.
struct TopTokens {
  int64_t k = 0, length = 0;
  std::vector<int32_t> ids;      // length * k; 0 in empty cells
  std::vector<float> log_probs;  // length * k; kEmptyCell in empty cells
};
inline constexpr float kEmptyCell = -99999.0f;

struct SampledSequence {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  bool ended_by_length = false;
  std::optional<TopTokens> top;
};

struct SampleResult {
  std::vector<SampledSequence> sequences;
  std::vector<float> prompt_log_probs;  // NaN: none
  std::optional<TopTokens> top_prompt;
  int64_t prompt_cache_hit_tokens = 0;
  at::Tensor target_prompt_log_probs;    // undefined: none
  at::Tensor alt_tokens, alt_log_probs;  // undefined: none
};

// SampleResponse. INVALID_ARGUMENT for a sequence whose log-probs are not as many as its tokens.
absl::StatusOr<std::string> WriteSampleResult(const SampleResult& result);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_RESULTS_H_
