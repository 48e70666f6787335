#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_

// Inputs of a rollout (rollout.h), and their checks.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "comm/communicator.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "model/logits_hook.h"
#include "model/stream_hooks.h"
#include "model/token_choice.h"
#include "model/transformer.h"

namespace moonring::model {

// Whether the turn ends with these tokens, the turn's so far, as if the last one were a stop id.
using EndsTurn = std::function<bool(absl::Span<const int64_t> ids)>;

struct RolloutPrompt {
  std::vector<int64_t> ids;  // at least one
  uint64_t key = 0;          // seeds random draws; for example the prompt's index
  // How this prompt's answers are sampled, if not as all others.
  std::optional<SamplingOptions> sampling = std::nullopt;
  int64_t answers = 0;           // 0: RolloutOptions::answers
  EndsTurn ends_turn = nullptr;  // null: RolloutOptions::ends_turn
  int64_t top = 0;               // size of Choice::top of each new token
};

struct Answer {
  std::vector<int64_t> ids;  // the new ids; the last one is a stop id if one ended the answer
  // true: ended by a stop id or by ends_turn; false: by max_new_tokens or by the model's number of
  // positions, also if these leave no room for the tokens of next_turn and one more.
  bool stopped = false;
  std::vector<double> log_probs;  // Choice::log_prob of each id; 0 for a given one
  std::vector<int64_t> mask;      // for each id 1 if it was sampled, 0 if next_turn gave it
  int64_t turns = 1;
  bool cancelled = false;                   // ended by on_token
  std::vector<std::vector<IdLogProb>> top;  // Choice::top of each id; empty if not asked for
};

// Ranks among which every sequence is split. All of them must call Rollout with the same prompts
// and options.
struct SpreadSequences {
  std::shared_ptr<comm::Communicator> ranks;
  std::shared_ptr<const attention::Attention> attention;  // communicates with these ranks
  mixers::MixingOptions mixing;
};

struct RolloutOptions {
  SamplingOptions sampling;  // max_new_tokens: all tokens of an answer, the given ones included
  int64_t answers = 1;       // per prompt
  int64_t sequences = 32;    // maximum number of answers generated at a time
  bool keep_casts = true;
  // Ranks that shard the weights; each calls Rollout with its own prompts. All of them run as many
  // forwards as the rank that needs most, because gathering a sharded weight is a collective call.
  // Costs one all-reduce of 16 bytes per forward. Null: the weights are not sharded.
  std::shared_ptr<comm::Communicator> lockstep;
  std::optional<SpreadSequences> spread;  // absent, or one rank: sequences are not split
  StreamHook after;                       // called for all rows, of prompts and of answers
  LogitsHook logits;                      // with `spread` called on the first rank only
  EndsTurn ends_turn;                     // with `spread` called on the first rank only
  // Called when a turn has ended, with `spread` on the first rank only. Returns the tokens that
  // follow (none: the answer continues at once), or nullopt if the answer is finished.
  std::function<std::optional<std::vector<int64_t>>(const OpenAnswer&)> next_turn;
  int64_t max_turns = 0;  // of an answer; next_turn is not called after the last. 0: no limit
  // The functions below are set on all ranks or on none. With `spread` the first rank calls them.
  //
  // Called before each forward, and when no work is left: returns prompts to answer in addition.
  // Their numbers follow those of the earlier prompts. The rollout ends when no work is left and it
  // returns none.
  std::function<std::vector<RolloutPrompt>()> arrivals;
  // Called with each sampled token and the answer before it. false cancels the answer: it ends with
  // this token, without effect on the others.
  std::function<bool(const OpenAnswer&, const Choice&)> on_token;
  // Called when an answer has ended.
  std::function<void(int64_t prompt, int64_t number, const Answer&)> on_answer;
};

// The options of a prompt's answers.
inline const SamplingOptions& SamplingOf(const RolloutPrompt& prompt,
                                         const RolloutOptions& options) {
  return prompt.sampling.has_value() ? *prompt.sampling : options.sampling;
}
inline int64_t AnswersOf(const RolloutPrompt& prompt, const RolloutOptions& options) {
  return prompt.answers > 0 ? prompt.answers : options.answers;
}

// Returns INVALID_ARGUMENT for invalid options, and for a prompt that is empty, has ids outside the
// vocabulary or is longer than the model's number of positions.
absl::Status Validate(const RolloutOptions& options, absl::Span<const RolloutPrompt> prompts,
                      const Transformer& model);

// Returns INVALID_ARGUMENT for a prompt that the model cannot answer, or with invalid options.
absl::Status Validate(const RolloutPrompt& prompt, const Transformer& model);

// Checks that all `ranks` were given the same prompts and options; returns INVALID_ARGUMENT on all
// of them if not. Collective over `ranks`; costs one all-reduce of 16 bytes.
absl::Status CheckSame(comm::Communicator& ranks, absl::Span<const RolloutPrompt> prompts,
                       const RolloutOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
