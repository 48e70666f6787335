#include "model/rollout/decisions.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"

namespace moonring::model {
namespace {

// Reads a list of numbers from its beginning.
class Numbers {
 public:
  explicit Numbers(const std::vector<double>& from) : at_(from.data()) {}
  double Next() { return *at_++; }
  int64_t Whole() { return static_cast<int64_t>(*at_++); }
  std::vector<int64_t> Wholes(int64_t count) {
    std::vector<int64_t> numbers(at_, at_ + count);
    at_ += count;
    return numbers;
  }

 private:
  const double* at_;
};

void Append(std::vector<double>& numbers, const Decision& decision) {
  const Choice& choice = decision.choice;
  const int ends = (decision.stopped ? 1 : 0) + (decision.cancelled ? 2 : 0);
  numbers.insert(numbers.end(),
                 {static_cast<double>(choice.id), choice.log_prob, static_cast<double>(ends)});
  for (const IdLogProb& likely : choice.top)
    numbers.insert(numbers.end(), {static_cast<double>(likely.id), likely.log_prob});
}

}  // namespace

Decisions::Decisions(const RolloutOptions& options, const Transformer& model)
    : options_(options), model_(model) {
  if (options.spread.has_value() && options.spread->ranks->size() > 1)
    ranks_ = options.spread->ranks.get();
}

// The first number tells the ranks how many numbers follow, or -1 that the first rank has failed.
std::vector<double> Decisions::OfFirstRank(
    absl::FunctionRef<std::vector<double>()> decide) const {
  if (ranks_ == nullptr) return decide();
  std::vector<double> decided;
  absl::Status status;
  if (ranks_->rank() == 0) status = base::TryTorch([&] { decided = decide(); });
  at::Tensor size = at::zeros({1}, at::kLong);
  if (ranks_->rank() == 0) size.fill_(status.ok() ? static_cast<int64_t>(decided.size()) : -1);
  base::ThrowIfError(ranks_->Broadcast(size, /*root=*/0));
  base::ThrowIfError(status);
  const auto count = size.item<int64_t>();
  if (count < 0) {
    base::ThrowIfError(absl::AbortedError(
        "the first of the ranks that share the sequences failed; its message says why"));
  }
  if (count == 0) return {};
  at::Tensor numbers = ranks_->rank() == 0 ? at::tensor(decided, at::kDouble)
                                           : at::empty({count}, at::kDouble);
  base::ThrowIfError(ranks_->Broadcast(numbers, /*root=*/0));
  const auto* const from = numbers.const_data_ptr<double>();
  return {from, from + count};
}

void Decisions::OnFirstRank(absl::FunctionRef<void()> call) const {
  OfFirstRank([&]() -> std::vector<double> {
    call();
    return {};
  });
}

bool Decisions::EndsTurn(const Undecided& of, int64_t id) const {
  const std::vector<int64_t>& stops = SamplingOf(*of.prompt, options_).stop_ids;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) return true;
  const auto& ends = of.prompt->ends_turn != nullptr ? of.prompt->ends_turn : options_.ends_turn;
  if (ends == nullptr) return false;
  const auto before = of.answer.ids.subspan(of.answer.turn_begin);
  std::vector<int64_t> turn(before.begin(), before.end());
  turn.push_back(id);
  return ends(turn);
}

std::vector<Decision> Decisions::TokensHere(absl::Span<const Undecided> of) const {
  at::Tensor hooked_BV;
  if (options_.logits != nullptr) {
    std::vector<at::Tensor> logits_V;
    std::vector<OpenAnswer> answers;
    for (const Undecided& each : of) {
      logits_V.push_back(each.logits_V);
      answers.push_back(each.answer);
    }
    hooked_BV = HookedLogits(options_.logits, at::stack(logits_V), answers);
  }
  std::vector<ChoiceOf> choices;
  for (size_t i = 0; i < of.size(); ++i) {
    const OpenAnswer& answer = of[i].answer;
    choices.push_back(
        {of[i].logits_V, answer.prompt_ids, answer.ids, answer.key,
         static_cast<uint64_t>(answer.answer), &SamplingOf(*of[i].prompt, options_),
         of[i].prompt->top,
         hooked_BV.defined() ? hooked_BV.select(0, static_cast<int64_t>(i)) : at::Tensor()});
  }
  std::vector<Choice> chosen = ChooseTokens(choices, options_.sampling);
  std::vector<Decision> decisions(of.size());
  for (size_t i = 0; i < of.size(); ++i) {
    decisions[i] = {std::move(chosen[i])};
    const Choice& choice = decisions[i].choice;
    decisions[i].stopped = EndsTurn(of[i], choice.id);
    decisions[i].cancelled =
        options_.on_token != nullptr && !options_.on_token(of[i].answer, choice);
  }
  return decisions;
}

std::vector<Decision> Decisions::Tokens(absl::Span<const Undecided> of) const {
  if (of.empty()) return {};
  if (ranks_ == nullptr) return TokensHere(of);
  const std::vector<double> agreed = OfFirstRank([&] {
    std::vector<double> numbers;
    for (const Decision& decision : TokensHere(of)) Append(numbers, decision);
    return numbers;
  });
  Numbers numbers(agreed);
  std::vector<Decision> decisions(of.size());
  for (size_t i = 0; i < of.size(); ++i) {
    Choice& choice = decisions[i].choice;
    choice.id = numbers.Whole();
    choice.log_prob = numbers.Next();
    const int64_t ends = numbers.Whole();
    decisions[i].stopped = (ends & 1) != 0;
    decisions[i].cancelled = (ends & 2) != 0;
    choice.top.resize(std::min(of[i].prompt->top, of[i].logits_V.numel()));
    for (IdLogProb& likely : choice.top) {
      likely.id = numbers.Whole();
      likely.log_prob = numbers.Next();
    }
  }
  return decisions;
}

// One list of numbers: for each answer its number of given tokens, or -1 if it is finished, and
// those tokens.
std::vector<std::optional<std::vector<int64_t>>> Decisions::Turns(
    absl::Span<const OpenAnswer> answers) const {
  if (answers.empty()) return {};
  const int64_t vocabulary = model_.config().vocab_size;
  const std::vector<double> agreed = OfFirstRank([&] {
    std::vector<double> numbers;
    for (const OpenAnswer& answer : answers) {
      const std::optional<std::vector<int64_t>> given = options_.next_turn(answer);
      numbers.push_back(given.has_value() ? static_cast<double>(given->size()) : -1.0);
      if (!given.has_value()) continue;
      for (const int64_t id : *given) {
        TORCH_CHECK_VALUE(id >= 0 && id < vocabulary, "continue: ", Describe(answer),
                          ": token id ", id, ", the vocabulary has ", vocabulary);
        numbers.push_back(static_cast<double>(id));
      }
    }
    return numbers;
  });
  Numbers numbers(agreed);
  std::vector<std::optional<std::vector<int64_t>>> turns(answers.size());
  for (auto& turn : turns) {
    const int64_t count = numbers.Whole();
    if (count >= 0) turn = numbers.Wholes(count);
  }
  return turns;
}

std::vector<RolloutPrompt> Decisions::Arrivals() const {
  if (options_.arrivals == nullptr) return {};
  std::vector<RolloutPrompt> here;
  const std::vector<double> agreed = OfFirstRank([&] {
    here = options_.arrivals();
    std::vector<double> numbers;
    for (size_t i = 0; i < here.size(); ++i) {
      const RolloutPrompt& prompt = here[i];
      base::ThrowIfError(base::WithContext(Validate(prompt, model_),
                                           absl::StrCat("arrivals: prompt ", i)));
      if (ranks_ == nullptr) continue;
      for (const int64_t number :
           {prompt.answers, prompt.top, SamplingOf(prompt, options_).max_new_tokens,
            static_cast<int64_t>(prompt.ids.size())})
        numbers.push_back(static_cast<double>(number));
      numbers.insert(numbers.end(), prompt.ids.begin(), prompt.ids.end());
    }
    return numbers;
  });
  if (ranks_ == nullptr || ranks_->rank() == 0) return here;
  Numbers numbers(agreed);
  std::vector<RolloutPrompt> arrived;
  for (size_t read = 0; read < agreed.size(); read += 4 + arrived.back().ids.size()) {
    RolloutPrompt prompt{.sampling = SamplingOptions()};
    prompt.answers = numbers.Whole();
    prompt.top = numbers.Whole();
    prompt.sampling->max_new_tokens = numbers.Whole();
    prompt.ids = numbers.Wholes(numbers.Whole());
    arrived.push_back(std::move(prompt));
  }
  return arrived;
}

}  // namespace moonring::model
