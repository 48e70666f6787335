#include "model/rollout/scheduler.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

namespace moonring::model {
namespace {

// Maximum number of prompt rows (tokens) per step and per forward; it limits the memory of
// activations.
constexpr int64_t kPromptRows = 512;

// A prompt of more tokens than this is computed in separate forwards.
constexpr int64_t kShortPrompt = 64;

}  // namespace

Scheduler::Scheduler(Transformer& model, absl::Span<const RolloutPrompt> prompts,
                     const RolloutOptions& options)
    : model_(model), options_(options), decisions_(options, model), forwards_(model, options) {
  for (const RolloutPrompt& prompt : prompts) Add(prompt);
}

void Scheduler::Add(const RolloutPrompt& prompt) {
  given_.push_back(&prompt);
  made_.emplace_back(AnswersTo(given_.size() - 1));
}

void Scheduler::TakePrompts() {
  for (RolloutPrompt& prompt : decisions_.Arrivals()) {
    arrived_.push_back(std::move(prompt));
    Add(arrived_.back());
  }
  SkipWithoutTokens();
  ReportEnded();
}

void Scheduler::SkipWithoutTokens() {
  for (; next_prompt_ < given_.size(); ++next_prompt_) {
    if (SamplingOf(*given_[next_prompt_], options_).max_new_tokens > 0) return;
    for (int64_t answer = 0; answer < AnswersTo(next_prompt_); ++answer)
      ended_.emplace_back(next_prompt_, answer);
  }
}

void Scheduler::Step() {
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

OpenAnswer Scheduler::OpenOf(const Running& running) {
  const RolloutPrompt& prompt = PromptOf(running);
  const Answer& answer = AnswerOf(running);
  return {static_cast<int64_t>(running.prompt),
          running.answer,
          prompt.key,
          prompt.ids,
          answer.ids,
          answer.turns - 1,
          running.turn_begin};
}

int64_t Scheduler::LengthOf(const Prompt& prompt) const {
  return static_cast<int64_t>(given_[prompt.number]->ids.size());
}

int64_t Scheduler::Pending(const Running& running) {
  return static_cast<int64_t>(PromptOf(running).ids.size() + AnswerOf(running).ids.size()) -
         running.sequence.tokens;
}

bool Scheduler::HasRoom(const Running& running, size_t count) const {
  const RolloutPrompt& prompt = PromptOf(running);
  const auto all = static_cast<int64_t>(count + prompt.ids.size());
  return static_cast<int64_t>(count) < SamplingOf(prompt, options_).max_new_tokens &&
         all <= model_.config().max_position_embeddings;
}

void Scheduler::End(Running& running, bool stopped) {
  AnswerOf(running).stopped = stopped;
  running.ended = true;
  forwards_.Close(running.sequence);
  ended_.emplace_back(running.prompt, running.answer);
}

void Scheduler::ReportEnded() {
  if (options_.on_answer != nullptr && !ended_.empty()) {
    decisions_.OnFirstRank([&] {
      for (const auto& [prompt, answer] : ended_)
        options_.on_answer(static_cast<int64_t>(prompt), answer, made_[prompt][answer]);
    });
  }
  ended_.clear();
}

bool Scheduler::AddToken(Running& running, Decision decision) {
  Answer& answer = AnswerOf(running);
  answer.ids.push_back(decision.choice.id);
  answer.log_probs.push_back(decision.choice.log_prob);
  answer.mask.push_back(1);
  if (PromptOf(running).top > 0) answer.top.push_back(std::move(decision.choice.top));
  const bool last = options_.max_turns > 0 && answer.turns >= options_.max_turns;
  answer.cancelled = decision.cancelled;
  if (decision.stopped && !decision.cancelled && options_.next_turn != nullptr && !last)
    return true;
  if (decision.stopped || decision.cancelled || !HasRoom(running, answer.ids.size()))
    End(running, decision.stopped);
  return false;
}

void Scheduler::Advance(const std::vector<at::Tensor>& logits_V, absl::Span<Running* const> of) {
  std::vector<Undecided> undecided;
  for (size_t i = 0; i < of.size(); ++i)
    undecided.push_back({OpenOf(*of[i]), &PromptOf(*of[i]), logits_V[i]});
  std::vector<Decision> decisions = decisions_.Tokens(undecided);
  std::vector<Running*> asked;
  for (size_t i = 0; i < of.size(); ++i) {
    if (AddToken(*of[i], std::move(decisions[i]))) asked.push_back(of[i]);
  }
  std::vector<OpenAnswer> open;
  for (const Running* const running : asked) open.push_back(OpenOf(*running));
  const auto turns = decisions_.Turns(open);
  for (size_t i = 0; i < asked.size(); ++i) Continue(*asked[i], turns[i]);
  ReportEnded();
}

void Scheduler::Continue(Running& running, const std::optional<std::vector<int64_t>>& given) {
  Answer& answer = AnswerOf(running);
  const size_t count = answer.ids.size() + (given.has_value() ? given->size() : 0);
  if (!given.has_value() || !HasRoom(running, count)) {
    End(running, /*stopped=*/!given.has_value());
    return;
  }
  answer.ids.insert(answer.ids.end(), given->begin(), given->end());
  answer.log_probs.resize(count, 0.0);
  answer.mask.resize(count, 0);
  if (PromptOf(running).top > 0) answer.top.resize(count);
  running.turn_begin = static_cast<int64_t>(count);
  ++answer.turns;
}

void Scheduler::StartAnswers() {
  while (room() > 0) {
    std::deque<Running> begun;
    std::vector<Running*> of;
    std::vector<at::Tensor> logits_V;
    for (Prompt& prompt : prompts_) {
      if (!prompt.logits_V.defined()) continue;
      for (; prompt.begun < AnswersTo(prompt.number) &&
             static_cast<int64_t>(begun.size()) < room();
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
      if (prompt->begun < AnswersTo(prompt->number)) {
        ++prompt;
        continue;
      }
      forwards_.Close(prompt->sequence);
      prompt = prompts_.erase(prompt);
    }
  }
}

void Scheduler::AdmitPrompts() {
  int64_t owed = 0;
  for (const Prompt& prompt : prompts_) owed += AnswersTo(prompt.number) - prompt.begun;
  while (next_prompt_ < given_.size() && owed < room()) {
    owed += AnswersTo(next_prompt_);
    prompts_.push_back({next_prompt_++, forwards_.Open(), {}, 0});
    SkipWithoutTokens();
  }
}

int64_t Scheduler::AddAnswer(Rows& rows, Running& running, int64_t most) {
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

int64_t Scheduler::AddPiece(Rows& rows, Prompt& prompt, int64_t most) {
  const int64_t length = LengthOf(prompt), first = prompt.sequence.tokens,
                count = std::min(most, length - first);
  rows.Add(prompt.sequence, absl::MakeConstSpan(given_[prompt.number]->ids).subspan(first, count),
           length);
  if (first + count == length) {
    rows.wanted.push_back(static_cast<int64_t>(rows.ids.size()) - 1);
    rows.whole_prompts.push_back(&prompt);
  }
  return count;
}

void Scheduler::RunRows(const Rows& rows, bool few) {
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

// A forward has up to kPromptRows rows per rank, or one longer prompt.
void Scheduler::RunPrompts() {
  std::vector<Prompt*> some;
  std::vector<WholePrompt> whole;
  size_t rows = 0;
  for (Prompt& prompt : prompts_) {
    const std::vector<int64_t>& ids = given_[prompt.number]->ids;
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

}  // namespace moonring::model
