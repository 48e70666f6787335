#ifndef MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_

// The divergence (row_divergence.h) of the policy from a reference of which only the top K ids of
// each token are known, kept from before (top_log_probs.h). It is of distributions over these ids,
// or over them and the rest as one more outcome. The outcomes' logits are a_k = z[id_k] /
// temperature and, for the rest, a_rest = logsumexp of the other z / temperature. With G the
// divergence's gradient in a,
//
//   dz[id_k] = G_k / temperature        dz_v = G_rest exp(z_v / temperature - a_rest) / temperature

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/row_divergence.h"

namespace moonring::objectives {

// What becomes of the ids that are not among a token's top K:
//   kBucket       they are one further outcome, with the mass that is left: K + 1 outcomes on
//                 either side. The reference's is 1 - sum_k q_k, at least 2^-23 (2^-52 for fp64
//                 log-probs), which is what their rounding leaves open; the policy's is exact. A
//                 lower bound of the divergence over the whole vocabulary.
//   kRenormalize  there are none: both distributions are renormalised over the K ids, and no
//                 gradient goes to any other.
//   kZero         the reference gives them none: q is renormalised over the K ids, p is over the
//                 whole vocabulary. Not for reverse, which is infinite.
enum class Rest { kBucket, kRenormalize, kZero };

// Log-probs at the temperature of the loss, which is not applied to them. But for kBucket a row's
// may all be off by a constant (so that log-probs made at 1, over the temperature, will do). -inf
// says that q is 0 there; not for reverse. Rows without a target may hold anything.
struct ReferenceTop {
  at::Tensor ids_TK;        // int64, distinct in a row
  at::Tensor log_probs_TK;  // fp32, bf16 or fp64
  Rest rest = Rest::kBucket;
};

// hidden_TD, targets_T -> [T] as LossOfRows (row_loss.h) gives and refuses, at its cost. Throws on
// ids outside the vocabulary or twice in a row, on log-probs that are NaN, and with kBucket on
// those that sum to more than 1.01 or where K ids are all there are. These checks wait for a device
// that the ids are on.
at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceTop& reference,
                           const Divergence& divergence, const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_
