#ifndef MOONRING_MODEL_ROLLOUT_SCHEDULER_H_
#define MOONRING_MODEL_ROLLOUT_SCHEDULER_H_

// Decides which rows (tokens) of which prompts and answers run in each forward of a rollout
// (rollout.h), and advances the answers by the tokens that are chosen from its logits.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/logits_hook.h"
#include "model/rollout/decisions.h"
#include "model/rollout/rollout_options.h"
#include "model/rollout/row_forwards.h"
#include "model/transformer.h"

namespace moonring::model {

class Scheduler {
 public:
  // All three must outlive this object.
  Scheduler(Transformer& model, absl::Span<const RolloutPrompt> prompts,
            const RolloutOptions& options);

  // Takes the prompts that have arrived. Must be called before finished() and Step().
  void TakePrompts();

  bool finished() const {
    return next_prompt_ == given_.size() && prompts_.empty() && running_.empty();
  }

  // Runs the forwards of long prompts and of long texts that answers were given, then one forward
  // of the answers. With lockstep every rank must run the same number of forwards, even if it has
  // no rows. So all rows then run in the forward of the answers, except prompts that are split over
  // ranks: they have one separate forward.
  void Step();

  std::vector<std::vector<Answer>> TakeAnswers() { return std::move(made_); }

  RolloutReport report() const { return forwards_.report(); }

 private:
  // A prompt that is being computed, or that waits until all of its answers have started.
  struct Prompt {
    size_t number = 0;
    CachedSequence sequence;
    at::Tensor logits_V;  // of the first new token; undefined until the prompt is computed
    int64_t begun = 0;    // number of answers started
  };
  struct Running {
    size_t prompt = 0;
    int64_t answer = 0;
    CachedSequence sequence;
    int64_t turn_begin = 0;  // index in Answer::ids of the turn's first token
    bool ended = false;
  };
  // Rows of one forward: those of answers, then those of prompts. Logits are needed of the last
  // rows of `answers`, then of `whole_prompts`.
  struct Rows : ForwardRows {
    std::vector<Running*> answers;  // whose tokens are all cached after this forward
    std::vector<Prompt*> whole_prompts;
  };

  const RolloutPrompt& PromptOf(const Running& running) const { return *given_[running.prompt]; }
  Answer& AnswerOf(const Running& running) { return made_[running.prompt][running.answer]; }
  OpenAnswer OpenOf(const Running& running);
  void Add(const RolloutPrompt& prompt);
  // Skips the next prompts that get no tokens (max_new_tokens 0): finished() and AdmitPrompts see a
  // prompt with work next, or none.
  void SkipWithoutTokens();
  int64_t AnswersTo(size_t prompt) const { return AnswersOf(*given_[prompt], options_); }
  int64_t LengthOf(const Prompt& prompt) const;
  // Number of the answer's tokens that are not in the caches: the last sampled one, and those given
  // after it.
  int64_t Pending(const Running& running);
  // Whether an answer of `count` tokens can have another one.
  bool HasRoom(const Running& running, size_t count) const;
  void End(Running& running, bool stopped);
  // Calls on_answer for the answers that have ended since the last call.
  void ReportEnded();
  // Adds the chosen token to the answer. Returns whether the next turn of the answer is due.
  bool AddToken(Running& running, Decision decision);
  // Chooses the next token of each answer from its row of logits. Ends answers, and continues those
  // whose turn has ended.
  void Advance(const std::vector<at::Tensor>& logits_V, absl::Span<Running* const> of);
  // Starts the next turn of an answer after the tokens `given`, or ends the answer.
  void Continue(Running& running, const std::optional<std::vector<int64_t>>& given);

  int64_t room() const { return options_.sequences - static_cast<int64_t>(running_.size()); }
  // Starts answers to computed prompts until `sequences` answers are running. The first token of an
  // answer is drawn from the prompt's logits.
  void StartAnswers();
  // Admits prompts in order, until their answers that have not started yet are enough to fill the
  // free places (room()).
  void AdmitPrompts();
  // Adds at most `most` of the answer's tokens that are not cached to `rows`; returns how many.
  int64_t AddAnswer(Rows& rows, Running& running, int64_t most);
  // Adds at most `most` of the prompt's next rows to `rows`; returns how many.
  int64_t AddPiece(Rows& rows, Prompt& prompt, int64_t most);
  // Runs a forward and processes its logits. `few`: as for RowForwards::Run.
  void RunRows(const Rows& rows, bool few);
  // Computes whole prompts on the ranks that share them.
  void RunPrompts();

  Transformer& model_;
  const RolloutOptions& options_;
  const Decisions decisions_;
  RowForwards forwards_;
  std::vector<const RolloutPrompt*> given_;
  std::deque<RolloutPrompt> arrived_;
  size_t next_prompt_ = 0;
  std::deque<Prompt> prompts_;
  std::vector<Running> running_;
  std::vector<std::vector<Answer>> made_;
  std::vector<std::pair<size_t, int64_t>> ended_;  // prompts and answers to report to on_answer
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_SCHEDULER_H_
