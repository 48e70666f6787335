#include "model/rollout/rollout.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "model/rollout/decisions.h"
#include "model/rollout/kept_casts.h"
#include "model/rollout/row_forwards.h"

namespace moonring::model {
namespace {

// Maximum number of prompt rows (tokens) per step and per forward; it limits the memory of
// activations.
constexpr int64_t kPromptRows = 512;

// A prompt of more tokens than this is computed in separate forwards.
constexpr int64_t kShortPrompt = 64;

class Scheduler {
 public:
  Scheduler(Transformer& model, absl::Span<const RolloutPrompt> prompts,
            const RolloutOptions& options)
      : model_(model),
        given_(prompts),
        options_(options),
        decisions_(options, model.config().vocab_size),
        forwards_(model, options),
        made_(prompts.size(), std::vector<Answer>(std::max<int64_t>(0, options.answers))) {
    if (options.sampling.max_new_tokens == 0) next_prompt_ = given_.size();
  }

  bool finished() const {
    return next_prompt_ == given_.size() && prompts_.empty() && running_.empty();
  }

  // Runs the forwards of long prompts and of long texts that answers were given, then one forward
  // of the answers. With lockstep every rank must run the same number of forwards, even if it has
  // no rows. So all rows then run in the forward of the answers, except prompts that are split over
  // ranks: they have one separate forward.
  void Step() {
    AdmitPrompts();
    if (forwards_.spread() != nullptr) RunPrompts();
    const bool together = options_.lockstep != nullptr;
    int64_t left = kPromptRows;  // remaining rows of prompts and of given texts in this step
    Rows rows;
    for (Running& running : running_) {
      const int64_t pending = Pending(running);
      if (pending == 1) {
        AddAnswer(rows, running, 1);
      } else if (left <= 0) {
        continue;
      } else if (together) {
        left -= AddAnswer(rows, running, left);
      } else if (pending <= kShortPrompt) {
        left -= AddAnswer(rows, running, pending);
      } else {
        Rows piece;
        left -= AddAnswer(piece, running, kPromptRows);
        RunRows(piece, /*few=*/false);
      }
    }
    if (forwards_.spread() != nullptr) left = 0;
    for (Prompt& prompt : prompts_) {
      const int64_t length = LengthOf(prompt);
      if (prompt.logits_V.defined() || left <= 0) continue;
      if (together) {
        left -= AddPiece(rows, prompt, left);
      } else if (length <= kShortPrompt) {
        left -= AddPiece(rows, prompt, length);
      } else {
        Rows piece;
        left -= AddPiece(piece, prompt, kPromptRows);
        RunRows(piece, /*few=*/false);
      }
    }
    if (!rows.ids.empty() || together)
      RunRows(rows, /*few=*/!together || rows.ids.size() <= kShortPrompt);
    std::erase_if(running_, [](const Running& running) { return running.ended; });
    StartAnswers();
  }

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

  Answer& AnswerOf(const Running& running) { return made_[running.prompt][running.answer]; }

  OpenAnswer OpenOf(const Running& running) {
    const RolloutPrompt& prompt = given_[running.prompt];
    const Answer& answer = AnswerOf(running);
    return {static_cast<int64_t>(running.prompt),
            running.answer,
            prompt.key,
            prompt.ids,
            answer.ids,
            answer.turns - 1,
            running.turn_begin};
  }
  std::vector<OpenAnswer> OpenOf(absl::Span<Running* const> of) {
    std::vector<OpenAnswer> open;
    for (const Running* const running : of) open.push_back(OpenOf(*running));
    return open;
  }

  // Number of the answer's tokens that are not in the caches: the last sampled one, and those given
  // after it.
  int64_t Pending(const Running& running) {
    return static_cast<int64_t>(given_[running.prompt].ids.size() + AnswerOf(running).ids.size()) -
           running.sequence.tokens;
  }

  // Whether an answer of `count` tokens can have another one.
  bool HasRoom(const Running& running, size_t count) const {
    const auto all = static_cast<int64_t>(count + given_[running.prompt].ids.size());
    return static_cast<int64_t>(count) < options_.sampling.max_new_tokens &&
           all <= model_.config().max_position_embeddings;
  }

  void End(Running& running, bool stopped) {
    AnswerOf(running).stopped = stopped;
    running.ended = true;
    forwards_.Close(running.sequence);
  }

  // Chooses the next token of each answer from its row of logits. Ends answers, and continues those
  // whose turn has ended.
  void Advance(const std::vector<at::Tensor>& logits_V, absl::Span<Running* const> of) {
    const std::vector<Choice> chosen = decisions_.Tokens(logits_V, OpenOf(of));
    const std::vector<int64_t>& stops = options_.sampling.stop_ids;
    std::vector<Running*> asked;
    for (size_t i = 0; i < of.size(); ++i) {
      Answer& answer = AnswerOf(*of[i]);
      answer.ids.push_back(chosen[i].id);
      answer.log_probs.push_back(chosen[i].log_prob);
      answer.mask.push_back(1);
      const bool stopped =
          std::find(stops.begin(), stops.end(), chosen[i].id) != stops.end() ||
          (options_.ends_turn != nullptr &&
           options_.ends_turn(absl::MakeConstSpan(answer.ids).subspan(of[i]->turn_begin)));
      const bool last = options_.max_turns > 0 && answer.turns >= options_.max_turns;
      if (stopped && options_.next_turn != nullptr && !last) {
        asked.push_back(of[i]);
      } else if (stopped || !HasRoom(*of[i], answer.ids.size())) {
        End(*of[i], stopped);
      }
    }
    const auto turns = decisions_.Turns(OpenOf(asked));
    for (size_t i = 0; i < asked.size(); ++i) Continue(*asked[i], turns[i]);
  }

  // Starts the next turn of an answer after the tokens `given`, or ends the answer.
  void Continue(Running& running, const std::optional<std::vector<int64_t>>& given) {
    Answer& answer = AnswerOf(running);
    const size_t count = answer.ids.size() + (given.has_value() ? given->size() : 0);
    if (!given.has_value() || !HasRoom(running, count)) {
      End(running, /*stopped=*/!given.has_value());
      return;
    }
    answer.ids.insert(answer.ids.end(), given->begin(), given->end());
    answer.log_probs.resize(count, 0.0);
    answer.mask.resize(count, 0);
    running.turn_begin = static_cast<int64_t>(count);
    ++answer.turns;
  }

  int64_t room() const { return options_.sequences - static_cast<int64_t>(running_.size()); }

  // Starts answers to computed prompts until `sequences` answers are running. The first token of an
  // answer is drawn from the prompt's logits.
  void StartAnswers() {
    while (room() > 0) {
      std::deque<Running> begun;
      std::vector<Running*> of;
      std::vector<at::Tensor> logits_V;
      for (Prompt& prompt : prompts_) {
        if (!prompt.logits_V.defined()) continue;
        for (; prompt.begun < options_.answers && static_cast<int64_t>(begun.size()) < room();
             ++prompt.begun) {
          begun.push_back({prompt.number, prompt.begun, forwards_.Fork(prompt.sequence)});
          of.push_back(&begun.back());
          logits_V.push_back(prompt.logits_V);
        }
      }
      if (begun.empty()) return;
      Advance(logits_V, of);
      for (const Running& running : begun) {
        if (!running.ended) running_.push_back(running);
      }
      for (auto prompt = prompts_.begin(); prompt != prompts_.end();) {
        if (prompt->begun < options_.answers) {
          ++prompt;
          continue;
        }
        forwards_.Close(prompt->sequence);
        prompt = prompts_.erase(prompt);
      }
    }
  }

  // Admits prompts in order, until their answers that have not started yet are enough to fill the
  // free places (room()).
  void AdmitPrompts() {
    int64_t owed = 0;
    for (const Prompt& prompt : prompts_) owed += options_.answers - prompt.begun;
    while (next_prompt_ < given_.size() && owed < room()) {
      prompts_.push_back({next_prompt_++, forwards_.Open(), {}, 0});
      owed += options_.answers;
    }
  }

  int64_t LengthOf(const Prompt& prompt) const {
    return static_cast<int64_t>(given_[prompt.number].ids.size());
  }

  // Adds at most `most` of the answer's tokens that are not cached to `rows`; returns how many.
  int64_t AddAnswer(Rows& rows, Running& running, int64_t most) {
    const std::vector<int64_t>& ids = AnswerOf(running).ids;
    const int64_t pending = Pending(running), count = std::min(most, pending),
                  first = static_cast<int64_t>(ids.size()) - pending;
    rows.Add(running.sequence, absl::MakeConstSpan(ids).subspan(first, count),
             running.sequence.tokens + pending);
    if (count == pending) {
      rows.wanted.push_back(static_cast<int64_t>(rows.ids.size()) - 1);
      rows.answers.push_back(&running);
    }
    return count;
  }

  // Adds at most `most` of the prompt's next rows to `rows`; returns how many.
  int64_t AddPiece(Rows& rows, Prompt& prompt, int64_t most) {
    const int64_t length = LengthOf(prompt), first = prompt.sequence.tokens,
                  count = std::min(most, length - first);
    rows.Add(prompt.sequence, absl::MakeConstSpan(given_[prompt.number].ids).subspan(first, count),
             length);
    if (first + count == length) {
      rows.wanted.push_back(static_cast<int64_t>(rows.ids.size()) - 1);
      rows.whole_prompts.push_back(&prompt);
    }
    return count;
  }

  // Runs a forward and processes its logits. `few`: as for RowForwards::Run.
  void RunRows(const Rows& rows, bool few) {
    const at::Tensor logits_BV = forwards_.Run(rows, few);
    std::vector<at::Tensor> logits_V;
    for (size_t i = 0; i < rows.answers.size(); ++i)
      logits_V.push_back(logits_BV.select(0, static_cast<int64_t>(i)));
    for (size_t i = 0; i < rows.whole_prompts.size(); ++i) {
      // Makes a copy, because a view would keep all logits of this forward in memory.
      rows.whole_prompts[i]->logits_V =
          logits_BV.select(0, static_cast<int64_t>(rows.answers.size() + i)).clone();
    }
    Advance(logits_V, rows.answers);
  }

  // Computes whole prompts on the ranks that share them. A forward has up to kPromptRows rows per
  // rank, or one longer prompt.
  void RunPrompts() {
    std::vector<Prompt*> some;
    std::vector<WholePrompt> whole;
    size_t rows = 0;
    for (Prompt& prompt : prompts_) {
      const std::vector<int64_t>& ids = given_[prompt.number].ids;
      if (prompt.logits_V.defined()) continue;
      const size_t most = static_cast<size_t>(kPromptRows) * forwards_.spread()->ranks->size();
      if (!some.empty() && rows + ids.size() > most) break;
      some.push_back(&prompt);
      whole.push_back({ids, &prompt.sequence});
      rows += ids.size();
    }
    if (some.empty() && options_.lockstep == nullptr) return;
    const at::Tensor logits_BV = forwards_.RunWhole(whole);
    for (size_t i = 0; i < some.size(); ++i)
      some[i]->logits_V = logits_BV.select(0, static_cast<int64_t>(i)).clone();
  }

  Transformer& model_;
  const absl::Span<const RolloutPrompt> given_;
  const RolloutOptions& options_;
  const Decisions decisions_;
  RowForwards forwards_;
  size_t next_prompt_ = 0;
  std::deque<Prompt> prompts_;
  std::vector<Running> running_;
  std::vector<std::vector<Answer>> made_;
};

// Whether any of `ranks` has work left. `mine` is this rank's status; an error on any rank is
// returned on all ranks.
absl::StatusOr<bool> AnyLeft(comm::Communicator* ranks, const absl::Status& mine, bool left) {
  if (ranks == nullptr) {
    RETURN_IF_ERROR(mine);
    return left;
  }
  at::Tensor counts = at::tensor({left ? 1 : 0, mine.ok() ? 0 : 1}, at::kLong);
  RETURN_IF_ERROR(ranks->AllReduceSum(counts));
  RETURN_IF_ERROR(mine);
  const int64_t failed = counts[1].item<int64_t>();
  if (failed > 0)
    return absl::AbortedError(absl::StrCat(failed,
                                           failed == 1 ? " rank that runs" : " ranks that run",
                                           " together with this one failed; their logs say why"));
  return counts[0].item<int64_t>() > 0;
}

absl::StatusOr<std::vector<std::vector<Answer>>> RunAll(Transformer& model,
                                                        absl::Span<const RolloutPrompt> prompts,
                                                        const RolloutOptions& options,
                                                        RolloutReport* report) {
  absl::Status status = Validate(options, prompts, model);
  if (options.spread.has_value()) {
    const absl::Status same = CheckSame(*options.spread->ranks, prompts, options);
    if (status.ok()) status = same;
  }
  if (!status.ok() && options.lockstep == nullptr) return status;
  const KeptCasts casts(model, options.keep_casts);
  Scheduler scheduler(model, status.ok() ? prompts : absl::Span<const RolloutPrompt>(), options);
  while (true) {
    ASSIGN_OR_RETURN(const bool left,
                     AnyLeft(options.lockstep.get(), status, !scheduler.finished()));
    if (!left) break;
    status = base::TryTorch([&] { scheduler.Step(); });
  }
  if (report != nullptr) *report = scheduler.report();
  return scheduler.TakeAnswers();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report) {
  auto answers = RunAll(model, prompts, options, report);
  if (!answers.ok()) return base::WithContext(answers.status(), "rollout");
  return answers;
}

}  // namespace moonring::model
