#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_H_

// Generates answers to many prompts at once, for reinforcement learning.
//
// At most `sequences` answers run at a time. Each forward takes one row of each of them, plus the
// waiting short prompts. Pieces of long prompts run in separate forwards, 512 rows per step. An
// answer that ends makes room immediately. A prompt is computed once for all of its answers: they
// share its blocks of keys and values (paged_cache.h) and start from the state of its other mixers
// (mixers/over_ranks/batch_mixing.h).
//
// The tokens of an answer depend only on the weights, its prompt and (seed, the prompt's key, the
// answer's number). On a CPU in fp32 and bf16 its log-probs do too, bit for bit, for dense models
// with only softmax attention whose widths are multiples of 32 (at other widths LibTorch's
// elementwise functions process the end of a piece with other code): batched rows use matrix
// products in which each row is independent of the others (kernels/products/few_rows.h), and a long
// prompt has its own forwards. Otherwise (fp64, a GPU, experts, other mixers, lockstep) the batch
// changes the last bits of logits. In fp64 that changes no choice; in fp32 it can change the choice
// between two nearly equal tokens.
//
// Ranks may share every sequence (spread). A prompt then runs through the run's sequence-parallel
// strategy, each rank with its shard of the tokens, whose keys and values stay there. Afterwards
// all ranks decode the same rows, each attending to its local keys, merged over ranks by one
// AllGather per layer. So the length of a prompt is limited by the memory of all ranks together.
// States of other mixers are copied to all ranks (mixers/over_ranks/end_states.h), and all ranks
// use the first rank's choices.
//
// Cost: a forward of B rows and the head for each new token of B answers. With
// rotary_depends_on_length a row is rotated by the number of tokens so far (as in Transformers),
// whereas a training forward rotates all rows by the whole length.
//
// If the matmul dtype differs from the weights' dtype, a forward casts what it leases. Here the
// cast copies are kept until the end (keep_casts), which costs a copy of those weights in the
// matmul dtype. Packed weights are unpacked by each forward.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/rollout/rollout_options.h"
#include "model/transformer.h"

namespace moonring::model {

struct Answer {
  std::vector<int64_t> ids;  // the new ids; the last one is a stop id if one ended the answer
  // true: ended by a stop id; false: by max_new_tokens or by the model's number of positions.
  bool stopped = false;
  std::vector<double> log_probs;  // of each id: Choice::log_prob
};

struct RolloutReport {
  int64_t forwards = 0, rows = 0;
  int64_t most_blocks = 0;  // peak number of key-value blocks in use
  int64_t blocks_left = 0;  // blocks in use at the end; 0 unless there is a leak
  int64_t cache_bytes = 0;  // of keys, values and states at the end, including free blocks
};

// Returns answers by prompt, then by answer number. INVALID_ARGUMENT for invalid options, and for a
// prompt that is empty, has ids outside the vocabulary or is longer than the model's number of
// positions. With `lockstep`, an error on one rank makes all ranks fail at the next forward.
// `report` may be null.
absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
