#ifndef MOONRING_OBJECTIVES_POLICY_GRADIENT_H_
#define MOONRING_OBJECTIVES_POLICY_GRADIENT_H_

// Reinforcement learning from rewards: GRPO and related losses. The loss is a sum over answers
// (level `sequence`, sums.h); the caller divides it by the sum of Count() over the whole step.
//
// A document is a prompt and an answer. Its n counted tokens are those with a target; n = 0 if the
// whole answer is masked (for example because it was cut short). A is the answer's advantage. For
// each token, p is its log-prob under the policy, q that under the policy that sampled the answer
// (p, detached, if it is the same policy), and r that under a reference model:
//
//   log s_t  = p_t - q_t                       importance_sampling_level token
//   log s    = sum_t (p_t - q_t) / n           ... sequence: GSPO (arXiv 2507.18071)
//   log s    = sum_t (p_t - q_t)               rloo (arXiv 2402.14740, clipped as in TRL)
//   l(s)     = -min(min(s, delta) A, clip(s, 1 - epsilon, 1 + epsilon_high) A)
//   k_t      = exp(r_t - p_t) - (r_t - p_t) - 1
//   L        = sum_t (h_t l(s_t) + beta k_t)
//
// The clip is PPO's, its upper bound DAPO's, and delta bounds the effect of a negative advantage
// (INTELLECT-2, arXiv 2505.07291). k is the KL estimate that is never negative. h_t is 1; or 1 for
// the tokens of high entropy and 0 for the others (arXiv 2506.01939; high_entropy.h computes their
// threshold).
//
//   loss_type   sum over answers of   divided by the step's
//   grpo        L / max(n, 1)         answers
//   bnpo        L                     counted tokens
//   dapo        L                     counted tokens
//   dr_grpo     L                     answers x max_completion_length
//   rloo        l(s)                  answers
//
// Sources: GRPO arXiv 2402.03300, DAPO 2503.14476, Dr. GRPO 2503.20783. The formulas are those of
// TRL 0.24 (GRPOTrainer, RLOOTrainer), but the divisors are those of the whole step: in TRL bnpo
// divides each micro-batch of each process by its own tokens and takes the mean of these. The
// divisor of dapo excludes the tokens of masked answers, as in TRL since PR 6439 (2026-07; TRL 0.24
// included them). grpo and dr_grpo divide by all answers, with the masked ones, as in TRL. The KL
// term of rloo is in its rewards. A document without targets (a shared prompt that other documents
// continue) is not an answer and is not counted.
//
// Metrics, (sum, count) under TRL's names:
//   kl, entropy           means over the counted tokens
//   clip_ratio/low_mean   share of s < 1 - epsilon with A < 0; high_mean: of s > 1 + epsilon_high
//                         with A > 0; region_mean: of either. Over the counted tokens, or over
//                         answers where s is one number per answer
//   clip_ratio/low_min, clip_ratio/high_max
//                         the least and the greatest of the answers' own means (in TRL over the
//                         processes, of the mean of a micro-batch)
//   sampling/logp_difference/mean, .../max
//                         of |q - the sampler's log-prob| over the counted tokens
//
// Cost: one all-reduce of 8 bytes per document and column (4 to 8 columns), in the forward only.
// Everything is in fp64.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "objectives/sums.h"

namespace moonring::objectives {

// One row of the table of loss types above.
struct PolicyLoss {
  enum class Divisor { kAnswers, kCountedTokens, kLongestAnswers };

  const char* name;
  Divisor divisor;
  bool mean_of_tokens;  // L is divided by the answer's own counted tokens
  bool of_sequences;    // one ratio per answer, from sums of log-probs, and no other term
};

absl::Span<const PolicyLoss> PolicyLosses();

struct PolicyGradientOptions {
  std::string loss_type = "dapo";
  double beta = 0.0;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // default: epsilon
  std::optional<double> delta;         // default: no bound
  std::string importance_sampling_level = "token";
  int64_t max_completion_length = 0;  // required for dr_grpo, unused otherwise
};

// A batch of D documents with T_local tokens on this rank, in the layout's order. Tensors of shape
// [D] are the same on every rank of the sp group. Values at tokens that are not counted are
// ignored.
struct PolicyBatch {
  at::Tensor log_prob_T;      // p; any floating type, differentiable
  at::Tensor old_T;           // q; undefined: p
  at::Tensor reference_T;     // r, if needs_reference()
  at::Tensor targets_T;       // int64; kIgnore: not part of an answer
  at::Tensor advantages;      // [D]
  std::vector<bool> counted;  // [D]: false masks an answer; empty: all count
  at::Tensor entropy_T;       // of the policy; undefined: no metric
  at::Tensor high_entropy_T;  // bool: h; undefined: 1
  at::Tensor sampled_T;       // the sampler's log-probs; undefined: no metrics
};

class PolicyGradient {
 public:
  // INVALID_ARGUMENT for an unknown loss_type or level (with the nearest name), numbers out of
  // range, dr_grpo without max_completion_length, and options that rloo does not use.
  static absl::StatusOr<std::unique_ptr<PolicyGradient>> Create(PolicyGradientOptions options);

  bool needs_reference() const { return options_.beta > 0.0; }

  // The contribution of a batch's documents to the divisor. targets [D]: the number of predictions
  // in each document (DocumentTargets); `counted` as in PolicyBatch. No communication.
  int64_t Count(const at::Tensor& targets, const std::vector<bool>& counted) const;

  // The sum over the batch's answers; 0 without documents. Collective over the group: the same
  // optional tensors must be defined on every rank. Throws on wrong shapes.
  Sums Loss(const PolicyBatch& batch, const comm::Layout& layout,
            const std::shared_ptr<comm::Communicator>& group) const;

 private:
  PolicyGradient(PolicyGradientOptions options, const PolicyLoss* loss)
      : options_(std::move(options)), loss_(loss) {}

  // Whether s is one number per answer.
  bool by_sequence() const {
    return loss_->of_sequences || options_.importance_sampling_level == "sequence";
  }

  // Columns by name, [T_local] each, 0 for tokens that are not counted. The loss is computed from
  // their sums over documents.
  using Columns = std::map<std::string, at::Tensor>;
  Columns ColumnsOf(const PolicyBatch& batch, const comm::Layout& layout, int rank) const;

  // l(s) for log-ratios and advantages of the same shape, and whether s is clipped from below (low)
  // or from above (high).
  struct Clipped {
    at::Tensor losses, low, high;
  };
  Clipped Clip(const at::Tensor& log_ratio, const at::Tensor& advantages) const;

  PolicyGradientOptions options_;
  const PolicyLoss* loss_;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_POLICY_GRADIENT_H_
