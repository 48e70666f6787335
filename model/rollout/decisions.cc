#include "model/rollout/decisions.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "base/status/torch_status.h"

namespace moonring::model {

Decisions::Decisions(const RolloutOptions& options, int64_t vocabulary)
    : options_(options), vocabulary_(vocabulary) {
  if (options.spread.has_value() && options.spread->ranks->size() > 1)
    ranks_ = options.spread->ranks.get();
}

// The first number tells the ranks the size of the tensor, or -1 that the first rank has failed.
at::Tensor Decisions::OfFirstRank(absl::FunctionRef<at::Tensor()> decide) const {
  if (ranks_ == nullptr) return decide();
  at::Tensor decided;
  absl::Status status;
  if (ranks_->rank() == 0) status = base::TryTorch([&] { decided = decide(); });
  at::Tensor size = at::zeros({1}, at::kLong);
  if (ranks_->rank() == 0) size.fill_(status.ok() ? decided.numel() : -1);
  base::ThrowIfError(ranks_->Broadcast(size, /*root=*/0));
  base::ThrowIfError(status);
  const auto count = size.item<int64_t>();
  if (count < 0) {
    base::ThrowIfError(absl::AbortedError(
        "the first of the ranks that share the sequences failed; its message says why"));
  }
  if (ranks_->rank() != 0) decided = at::empty({count}, at::kDouble);
  if (count > 0) base::ThrowIfError(ranks_->Broadcast(decided, /*root=*/0));
  return decided;
}

std::vector<Choice> Decisions::TokensHere(const std::vector<at::Tensor>& logits_V,
                                          absl::Span<const OpenAnswer> answers) const {
  std::vector<ChoiceOf> choices;
  at::Tensor hooked_BV;
  if (options_.logits != nullptr)
    hooked_BV = HookedLogits(options_.logits, at::stack(logits_V), answers);
  for (size_t i = 0; i < answers.size(); ++i) {
    const OpenAnswer& of = answers[i];
    choices.push_back(
        {logits_V[i], of.prompt_ids, of.ids, of.key, static_cast<uint64_t>(of.answer),
         hooked_BV.defined() ? hooked_BV.select(0, static_cast<int64_t>(i)) : at::Tensor()});
  }
  return ChooseTokens(choices, options_.sampling);
}

std::vector<Choice> Decisions::Tokens(const std::vector<at::Tensor>& logits_V,
                                      absl::Span<const OpenAnswer> answers) const {
  if (answers.empty()) return {};
  if (ranks_ == nullptr) return TokensHere(logits_V, answers);
  const at::Tensor agreed = OfFirstRank([&] {
    const std::vector<Choice> chosen = TokensHere(logits_V, answers);
    at::Tensor numbers = at::empty({2 * static_cast<int64_t>(chosen.size())}, at::kDouble);
    auto* const to = numbers.mutable_data_ptr<double>();
    for (size_t i = 0; i < chosen.size(); ++i) {
      to[2 * i] = static_cast<double>(chosen[i].id);
      to[2 * i + 1] = chosen[i].log_prob;
    }
    return numbers;
  });
  const auto* const from = agreed.const_data_ptr<double>();
  std::vector<Choice> chosen(answers.size());
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = {static_cast<int64_t>(from[2 * i]), from[2 * i + 1]};
  return chosen;
}

// One list of numbers: for each answer its number of given tokens, or -1 if it is finished, and
// those tokens.
std::vector<std::optional<std::vector<int64_t>>> Decisions::Turns(
    absl::Span<const OpenAnswer> answers) const {
  if (answers.empty()) return {};
  const at::Tensor agreed = OfFirstRank([&] {
    std::vector<double> numbers;
    for (const OpenAnswer& answer : answers) {
      const std::optional<std::vector<int64_t>> given = options_.next_turn(answer);
      numbers.push_back(given.has_value() ? static_cast<double>(given->size()) : -1.0);
      if (!given.has_value()) continue;
      for (const int64_t id : *given) {
        TORCH_CHECK_VALUE(id >= 0 && id < vocabulary_, "continue: ", Describe(answer),
                          ": token id ", id, ", the vocabulary has ", vocabulary_);
        numbers.push_back(static_cast<double>(id));
      }
    }
    return at::tensor(numbers, at::kDouble);
  });
  const auto* from = agreed.const_data_ptr<double>();
  std::vector<std::optional<std::vector<int64_t>>> turns(answers.size());
  for (auto& turn : turns) {
    const auto count = static_cast<int64_t>(*from++);
    if (count < 0) continue;
    turn.emplace(from, from + count);
    from += count;
  }
  return turns;
}

}  // namespace moonring::model
