#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_H_

// Answers to many prompts at once: what learning from rewards is fed with.
//
// At most `sequences` answers run at a time. Each forward takes one row of every one of them and
// the prompts that wait and are short; pieces of long prompts run beside it, 512 rows a step; an
// answer that ends makes room at once. A prompt is computed once for all of its answers: they share
// its blocks of keys and values (paged_cache.h) and start from the state of its other mixers
// (mixers/batch_mixing.h).
//
// Which tokens an answer has depends on the weights, its prompt and (seed, the prompt's key, the
// answer's number) alone. On a CPU in fp32 and bf16 so do its log-probs to the bit, in models of
// dense layers that attend, whose widths are whole vectors of 32 numbers (LibTorch's elementwise
// functions end a piece by other code): rows that share a forward go by products in which a row
// knows of no other (kernels/products/few_rows.h), and a long prompt's forwards are its own.
// Elsewhere (fp64, a GPU, experts, other mixers, lockstep) what runs beside an answer moves logits
// in their last bits: in fp64 that moves no choice; in fp32 one between two tokens that are as good
// as tied.
//
// Ranks may share every sequence (spread): a prompt runs through the strategy by which the run
// attends, each rank with its part of the tokens, whose keys and values stay where they are; then
// all ranks decode the same rows, each attending over the keys that it holds, merged over ranks by
// one AllGather a layer. So a prompt may be as long as ranks' memory is together. States of other
// mixers go to all ranks (mixers/end_states.h), and the first rank's choices are all ranks'.
//
// Cost: a forward of B rows and the head for each new token of B answers. With
// rotary_depends_on_length a row is turned as by the tokens that there are so far (as in
// Transformers), where a trainer's forward turns all by the whole length.
//
// With matmuls in another dtype than the weights' a forward casts what it leases; here what was
// cast is kept until the end (keep_casts), which costs a copy of those weights in the matmul dtype.
// Packed weights are unpacked by each forward.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/rollout/rollout_options.h"
#include "model/transformer.h"

namespace moonring::model {

struct Answer {
  std::vector<int64_t> ids;       // the new ones; the last is a stop id where one ended it
  bool stopped = false;           // by a stop id; else by max_new_tokens or the model's positions
  std::vector<double> log_probs;  // of each id: Choice::log_prob
};

struct RolloutReport {
  int64_t forwards = 0, rows = 0;
  int64_t most_blocks = 0;  // of keys in use at a time
  int64_t blocks_left = 0;  // that nobody freed: none
  int64_t cache_bytes = 0;  // of keys, values and states at the end, idle room too
};

// By prompt, by answer. INVALID_ARGUMENT for bad options, a prompt of no ids, of ids outside the
// vocabulary or longer than the model has positions for. With `lockstep` an error of one rank is
// one of all, at the next forward. `report` may be null.
absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_H_
