#ifndef MOONRING_OBJECTIVES_POLICY_GRADIENT_H_
#define MOONRING_OBJECTIVES_POLICY_GRADIENT_H_

// Learning from rewards: GRPO and its kin. Sequence level; the runtime divides by Count of the
// whole step.
//
// A document is a prompt and an answer. Its n tokens that count are those with a target, or none
// where the whole answer is masked (it was cut short, say). With its advantage A and the token
// log-probs p of the policy, q of the policy that sampled it (p itself, outside the graph, where it
// is the same one) and r of a reference:
//
//   log s_t  = p_t - q_t                       importance_sampling_level token
//   log s    = sum_t (p_t - q_t) / n           ... sequence: GSPO (arXiv 2507.18071)
//   log s    = sum_t (p_t - q_t)               rloo (arXiv 2402.14740, clipped as TRL has it)
//   l(s)     = -min(min(s, delta) A, clip(s, 1 - epsilon, 1 + epsilon_high) A)
//   k_t      = exp(r_t - p_t) - (r_t - p_t) - 1
//   L        = sum_t (h_t l(s_t) + beta k_t)
//
// The clip is PPO's, its upper bound DAPO's, and delta bounds what a negative advantage can do
// (INTELLECT-2, arXiv 2505.07291). k is the KL estimate that is never negative. h is 1, or 1 for
// the tokens of high entropy alone (arXiv 2506.01939; high_entropy.h has their threshold).
//
//   loss_type   sum over answers of   divided by the step's
//   grpo        L / max(n, 1)         answers
//   bnpo        L                     tokens that count
//   dapo        L                     tokens that count
//   dr_grpo     L                     answers x max_completion_length
//   rloo        l(s)                  answers
//
// Sources: GRPO arXiv 2402.03300, DAPO 2503.14476, Dr. GRPO 2503.20783. The formulas are those of
// TRL 0.24 (GRPOTrainer, RLOOTrainer), the divisors the whole step's: in TRL bnpo divides each
// micro-batch of each process by its own tokens, and a mean is taken of those. dapo's leaves out
// masked answers, as TRL's does since PR 6439 (2026-07; 0.24 counted them); grpo and dr_grpo divide
// by all answers, as TRL still does. rloo has its KL term in the rewards. A document without
// targets is no answer (a prompt that others go on from): it counts nowhere.
//
// Metrics, (sum, count) under TRL's names:
//   kl, entropy           means over the tokens that count
//   clip_ratio/low_mean   of s < 1 - epsilon with A < 0; high_mean: of s > 1 + epsilon_high with
//                         A > 0; region_mean: of either. Over those tokens; over answers where s is
//                         one number of each
//   clip_ratio/low_min, clip_ratio/high_max
//                         the least and the greatest over answers of an answer's own mean (in TRL
//                         over the processes, of the mean of a micro-batch)
//   sampling/logp_difference/mean, .../max
//                         of |q - what the sampler said it was| over the tokens that count
//
// Cost: one all-reduce of 8 bytes a document and column (4 to 8 of these), forward alone. All in
// fp64.

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

// A row of the table of loss_type above.
struct PolicyLoss {
  enum class Divisor { kAnswers, kCountedTokens, kLongestAnswers };

  const char* name;
  Divisor divisor;
  bool mean_of_tokens;  // L is divided by the answer's own tokens
  bool of_sequences;    // one ratio an answer, of sums of log-probs, and no other term
};

absl::Span<const PolicyLoss> PolicyLosses();

struct PolicyGradientOptions {
  std::string loss_type = "dapo";
  double beta = 0.0;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // epsilon where absent
  std::optional<double> delta;         // no bound where absent
  std::string importance_sampling_level = "token";
  int64_t max_completion_length = 0;  // needed by dr_grpo, and of no use to the others
};

// Of D documents, T_local tokens of this rank in the layout's order. What is [D] is the same on
// every rank of the sp group. Numbers of tokens that do not count are not looked at.
struct PolicyBatch {
  at::Tensor log_prob_T;      // p; any floating type, differentiable
  at::Tensor old_T;           // q; undefined: p
  at::Tensor reference_T;     // r, where needs_reference()
  at::Tensor targets_T;       // int64; kIgnore: not of an answer
  at::Tensor advantages;      // [D]
  std::vector<bool> counted;  // [D]: false masks an answer; none: all count
  at::Tensor entropy_T;       // of the policy; undefined: no metric
  at::Tensor high_entropy_T;  // bool: h; undefined: 1
  at::Tensor sampled_T;       // log-probs that the sampler gave; undefined: no metrics
};

class PolicyGradient {
 public:
  // INVALID_ARGUMENT for an unknown loss_type or level (with the nearest name), numbers out of
  // their range, dr_grpo without max_completion_length, and what rloo has no use for.
  static absl::StatusOr<std::unique_ptr<PolicyGradient>> Create(PolicyGradientOptions options);

  bool needs_reference() const { return options_.beta > 0.0; }

  // What these documents add to the divisor: targets [D], how many each has (DocumentTargets);
  // counted as in PolicyBatch. Nothing is communicated.
  int64_t Count(const at::Tensor& targets, const std::vector<bool>& counted) const;

  // The sum over the answers. Every rank of the group must call it, with the same of its inputs
  // defined. No documents give 0. Throws on shapes.
  Sums Loss(const PolicyBatch& batch, const comm::Layout& layout,
            const std::shared_ptr<comm::Communicator>& group) const;

 private:
  PolicyGradient(PolicyGradientOptions options, const PolicyLoss* loss)
      : options_(std::move(options)), loss_(loss) {}

  // Whether s is one number of each answer.
  bool by_sequence() const {
    return loss_->of_sequences || options_.importance_sampling_level == "sequence";
  }

  // [T_local] each, by name, 0 for tokens that do not count; their sums over documents are all that
  // the loss is made of.
  using Columns = std::map<std::string, at::Tensor>;
  Columns ColumnsOf(const PolicyBatch& batch, const comm::Layout& layout, int rank) const;

  // Of advantages of the same shape: l(s), and where s is clipped from below and above.
  struct Clipped {
    at::Tensor losses, low, high;
  };
  Clipped Clip(const at::Tensor& log_ratio, const at::Tensor& advantages) const;

  PolicyGradientOptions options_;
  const PolicyLoss* loss_;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_POLICY_GRADIENT_H_
