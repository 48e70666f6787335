#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_H_

// Generates answers to many prompts at once, for reinforcement learning.
//
// At most `sequences` answers are generated at a time. Each forward has one row (token) of each of
// these answers, plus the rows of short prompts that wait to be computed. Long prompts are computed
// in separate forwards, in pieces, 512 rows per step. When an answer ends, another one starts
// immediately. A prompt is computed once for all of its answers: they share its keys and values
// (paged_cache.h), and in layers with a recurrent state (linear attention, state space,
// convolution) they start from a copy of the prompt's state (mixers/over_ranks/batch_mixing.h).
//
// The tokens of an answer depend only on the weights, its prompt and (seed, the prompt's key, the
// answer's number), not on the other sequences in the batch. The same holds for its log-probs, bit
// for bit, on a CPU in fp32 and bf16, for dense models with only softmax attention whose widths are
// multiples of 32 (at other widths LibTorch's elementwise functions process the end of a piece with
// other code): batched rows use matrix products in which each row is independent of the others
// (kernels/products/few_rows.h), and a long prompt has its own forwards. In all other cases (fp64,
// a GPU, experts, recurrent layers, lockstep) the batch changes the last bits of logits. In fp64
// that changes no choice of a token; in fp32 it can change the choice between two nearly equally
// likely tokens.
//
// An answer may have several turns (RolloutOptions::next_turn): when one ends, a caller's function
// (a tool) gives the tokens that follow it. The caches are kept, so only these tokens are computed:
// up to 64 in the forward of the answers, more of them as a long prompt. Then the next turn starts.
// The draws of a turn depend on the number of tokens before it in the answer, sampled or given.
//
// Ranks may share every sequence (RolloutOptions::spread). A prompt is then computed with
// sequence-parallel attention; each rank computes its shard of the tokens and stores their keys and
// values. Afterwards all ranks decode the same rows, each attending to its local keys, merged over
// ranks by one AllGather per layer. So the length of a prompt is limited by the memory of all ranks
// together. Recurrent states are copied to all ranks (mixers/over_ranks/end_states.h), and all
// ranks use the tokens that the first rank chose.
//
// Cost of one new token for each of B answers: a forward of B rows, and the head. If the rotary
// angles depend on the sequence length (rotary_depends_on_length), a row uses the number of tokens
// so far, as in Transformers, whereas training uses the length of the whole document.
//
// If the matmul dtype differs from the weights' dtype, every forward casts the weights that it
// uses. With keep_casts the cast copies are kept until the end of the rollout, which costs memory
// for a copy of those weights in the matmul dtype. Quantised weights are dequantised in each
// forward.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/rollout/rollout_options.h"
#include "model/rollout/row_forwards.h"
#include "model/transformer.h"

namespace moonring::model {

// Generates all answers; result[p][a] is answer a to prompt p, also of those that arrived later.
// INVALID_ARGUMENT for invalid options, and for a prompt that is empty, has ids outside the
// vocabulary or is longer than the model's number of positions. With options.lockstep, an error on
// one rank makes all ranks fail at the next forward. `report` may be null.
absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
