#include "model/sampler.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "model/next_logits.h"

namespace moonring::model {
namespace {

// Maximum number of prompt rows per forward; it limits the memory of activations and of attention's
// mask.
constexpr int64_t kPromptRows = 512;

// Number of prompts for which a copy of the mixers' recurrent state is kept.
constexpr size_t kMarks = 2;

// Replaces `id` by the id that the first rank chose. Collective.
absl::Status Agree(comm::Communicator& ranks, int64_t& id) {
  at::Tensor chosen = at::full({1}, id, at::kLong);
  RETURN_IF_ERROR(ranks.Broadcast(chosen, /*root=*/0));
  id = chosen.item<int64_t>();
  return absl::OkStatus();
}

at::Tensor Ids(absl::Span<const int64_t> ids) {
  return at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong);
}

}  // namespace

Sampler::Sampler(Transformer& model, StreamHook after, LogitsHook logits)
    : model_(model),
      after_(std::move(after)),
      logits_(std::move(logits)),
      attending_(model.config().layers_keeping(MixerCache::kKeys)),
      cache_(std::make_shared<KvCache>(attending_)) {
  if (model.config().layers_keeping(MixerCache::kState) > 0)
    mixing_ = std::make_shared<mixers::MixingCache>();
}

void Sampler::Forget() {
  cache_->Truncate(0);
  if (mixing_ != nullptr) mixing_->Forget();
  marks_.clear();
  cached_ids_.clear();
}

int64_t Sampler::GoBack(int64_t tokens) {
  if (mixing_ != nullptr && tokens < static_cast<int64_t>(cached_ids_.size())) {
    while (!marks_.empty() && marks_.back().tokens > tokens) marks_.pop_back();
    tokens = marks_.empty() ? 0 : marks_.back().tokens;
    mixing_->Restore(marks_.empty() ? mixers::MixingCache::Kept() : marks_.back().kept);
  }
  if (attending_ > 0) cache_->Truncate(tokens);
  cached_ids_.resize(tokens);
  return tokens;
}

void Sampler::Mark() {
  marks_.push_back({static_cast<int64_t>(cached_ids_.size()), mixing_->Save()});
  if (marks_.size() > kMarks) marks_.pop_front();
}

absl::StatusOr<at::Tensor> Sampler::NextLogits(absl::Span<const int64_t> ids) {
  RETURN_IF_ERROR(CheckPrompt(model_, ids), "sampler");
  const int64_t count = ids.size();
  // At least the last token must run, because its hidden state is needed.
  const size_t reusable = std::min<size_t>(cached_ids_.size(), count - 1);
  const int64_t same =
      std::mismatch(ids.begin(), ids.begin() + reusable, cached_ids_.begin()).first - ids.begin();
  at::Tensor logits_V;
  const absl::Status status = base::TryTorch([&] {
    at::NoGradGuard no_grad;
    const int64_t held = GoBack(same);
    // A copy of the state before the prompt's last token is kept, because a later call may go back
    // to that point: with the same prompt, or with the next turn of the conversation.
    const bool marks = mixing_ != nullptr && count - held > 1;
    at::Tensor hidden_TD;
    for (int64_t begin = held, end = held; begin < count; begin = end) {
      end = std::min(begin + kPromptRows, count);
      if (marks && begin < count - 1) end = std::min(end, count - 1);
      const ForwardOptions options{.lengths_T = at::full({end - begin}, count, at::kLong),
                                   .mixing = mixing_,
                                   .hooks = {.after = after_}};
      hidden_TD = model_
                      .Forward(Ids(ids.subspan(begin, end - begin)),
                               at::arange(begin, end, at::kLong), cache_, options)
                      .hidden_TD;
      cached_ids_.insert(cached_ids_.end(), ids.begin() + begin, ids.begin() + end);
      if (marks && end == count - 1) Mark();
    }
    logits_V = model::NextLogits(model_, hidden_TD.narrow(0, hidden_TD.size(0) - 1, 1)).squeeze(0);
  });
  if (!status.ok()) {
    Forget();
    return base::WithContext(status, "sampler");
  }
  return logits_V;
}

int64_t Sampler::NextId(at::Tensor logits_V, absl::Span<const int64_t> ids, size_t prompt,
                        const SamplingOptions& options) const {
  if (logits_ != nullptr) {
    const OpenAnswer answer{.prompt_ids = ids.subspan(0, prompt), .ids = ids.subspan(prompt)};
    logits_V = HookedLogits(logits_, logits_V.to(at::kCPU).unsqueeze(0), {&answer, 1}).squeeze(0);
  }
  return ChooseToken(logits_V, ids, options, static_cast<int64_t>(ids.size() - prompt));
}

absl::StatusOr<std::vector<int64_t>> Sampler::Generate(
    absl::Span<const int64_t> prompt, const SamplingOptions& options,
    const std::function<bool(int64_t)>& on_token) {
  RETURN_IF_ERROR(Validate(options));
  std::vector<int64_t> ids(prompt.begin(), prompt.end());
  const auto generated = [&] { return static_cast<int64_t>(ids.size() - prompt.size()); };
  while (generated() < options.max_new_tokens) {
    if (generated() > 0 &&
        static_cast<int64_t>(ids.size()) > model_.config().max_position_embeddings)
      break;
    ASSIGN_OR_RETURN(const at::Tensor logits_V, NextLogits(ids));
    int64_t id = 0;
    RETURN_IF_ERROR(base::TryTorch([&] { id = NextId(logits_V, ids, prompt.size(), options); }));
    if (model_.options().expert_ranks != nullptr)
      RETURN_IF_ERROR(Agree(*model_.options().expert_ranks->group(), id), "sampler");
    ids.push_back(id);
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end())
      break;
    if (on_token != nullptr && !on_token(id)) break;
  }
  return std::vector<int64_t>(ids.begin() + prompt.size(), ids.end());
}

}  // namespace moonring::model
