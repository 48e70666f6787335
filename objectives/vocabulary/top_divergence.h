#ifndef MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_

// The divergence (row_divergence.h) of the policy from a reference model of which only the K most
// likely ids of each token are known; they were stored earlier (top_log_probs.h). The distributions
// are over these K outcomes, or over K + 1 outcomes, where the last is all other ids. With the
// policy's logits z, the outcomes' logits are a_k = z[id_k] / temperature and, for the rest, a_rest
// = logsumexp of the other z / temperature. With G the divergence's gradient with respect to a,
//
//   dz[id_k] = G_k / temperature        dz_v = G_rest exp(z_v / temperature - a_rest) / temperature

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/row_divergence.h"

namespace moonring::objectives {

// How the ids that are not among a token's top K are treated:
//   kBucket       they are one more outcome, with the remaining mass: K + 1 outcomes in both
//                 distributions. The reference's remaining mass is 1 - sum_k q_k, at least 2^-23
//                 (2^-52 for fp64 log-probs), the limit of rounding; the policy's is exact. The
//                 result is a lower bound of the divergence over the whole vocabulary.
//   kRenormalize  they are ignored: both distributions are renormalized over the K ids, and no
//                 gradient goes to any other.
//   kZero         the reference gives them no mass: q is renormalized over the K ids, p is over the
//                 whole vocabulary. Not allowed for the reverse divergence, which would be
//                 infinite.
enum class Rest { kBucket, kRenormalize, kZero };

// Log-probs of the reference, to which the caller has already applied the loss's temperature.
// Except for kBucket, a constant may be added to all log-probs of a row (so log-probs at
// temperature 1, divided by the temperature, are sufficient). -inf means that q is 0 for this id,
// and is not allowed for reverse. Rows without a target may have any values.
struct ReferenceTop {
  at::Tensor ids_TK;        // int64, distinct in a row
  at::Tensor log_probs_TK;  // fp32, bf16 or fp64
  Rest rest = Rest::kBucket;
};

// Returns one divergence per row, [T], with the conventions, errors and cost of LossOfRows
// (row_loss.h). Throws on ids outside the vocabulary or repeated in a row, on log-probs that are
// NaN, and with kBucket on log-probs whose sum of probabilities is more than 1.01, or where the K
// ids are the whole vocabulary. These checks synchronize with the device of the ids.
at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceTop& reference,
                           const Divergence& divergence, const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_TOP_DIVERGENCE_H_
