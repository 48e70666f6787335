#include "model/rollout/row_forwards.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "attention/kernels/tile_plan.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/status/torch_status.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "kernels/products/product_scope.h"
#include "mixers/over_ranks/end_states.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "model/next_logits.h"

namespace moonring::model {

void ForwardRows::Add(CachedSequence& sequence, absl::Span<const int64_t> some, int64_t length) {
  const auto count = static_cast<int64_t>(some.size());
  ids.insert(ids.end(), some.begin(), some.end());
  for (int64_t row = 0; row < count; ++row) positions.push_back(sequence.tokens + row);
  lengths.insert(lengths.end(), count, length);
  keys.push_back({sequence.keys, count});
  states.push_back({sequence.state, count});
  sequence.tokens += count;
}

RowForwards::RowForwards(Transformer& model, const RolloutOptions& options)
    : model_(model),
      options_(options),
      spread_(options.spread.has_value() && options.spread->ranks->size() > 1 ? &*options.spread
                                                                              : nullptr),
      cache_(std::make_shared<PagedCache>(spread_ == nullptr ? nullptr : spread_->ranks)) {
  if (model.config().layers_keeping(MixerCache::kState) > 0)
    mixing_ = std::make_shared<mixers::BatchMixing>();
}

CachedSequence RowForwards::Open() {
  return {cache_->Open(), mixing_ == nullptr ? 0 : mixing_->Open(), 0};
}

CachedSequence RowForwards::Fork(const CachedSequence& from) {
  return {cache_->Fork(from.keys), mixing_ == nullptr ? 0 : mixing_->Fork(from.state), from.tokens};
}

void RowForwards::Close(const CachedSequence& sequence) {
  cache_->Close(sequence.keys);
  if (mixing_ != nullptr) mixing_->Close(sequence.state);
}

RolloutReport RowForwards::report() const {
  return {.forwards = forwards_,
          .rows = rows_,
          .most_blocks = cache_->pool().most_used(),
          .blocks_left = cache_->pool().used(),
          .cache_bytes = cache_->bytes() + (mixing_ == nullptr ? 0 : mixing_->bytes())};
}

at::Tensor RowForwards::Run(const ForwardRows& rows, bool few) {
  const at::NoGradGuard no_grad;
  cache_->Begin(rows.keys);
  if (mixing_ != nullptr) mixing_->Begin(rows.states);
  const at::Tensor hidden_TD =
      Hidden(base::ToDevice(rows.ids, at::kCPU), base::ToDevice(rows.positions, at::kCPU),
             base::ToDevice(rows.lengths, at::kCPU), mixing_, few);
  return Logits(hidden_TD.index_select(0, base::ToDevice(rows.wanted, hidden_TD.device())));
}

at::Tensor RowForwards::RunWhole(absl::Span<const WholePrompt> prompts) {
  const at::NoGradGuard no_grad;
  const int rank = spread_->ranks->rank();
  std::vector<int64_t> ids, lengths, lengths_of_rows, keys, states;
  for (const WholePrompt& prompt : prompts) {
    ids.insert(ids.end(), prompt.ids.begin(), prompt.ids.end());
    lengths.push_back(static_cast<int64_t>(prompt.ids.size()));
    lengths_of_rows.insert(lengths_of_rows.end(), lengths.back(), lengths.back());
    keys.push_back(prompt.sequence->keys);
    states.push_back(prompt.sequence->state);
    prompt.sequence->tokens = lengths.back();
  }
  const auto layout = base::ValueOrThrow(comm::Layout::Create(
      lengths, spread_->attention->Divide(lengths), attention::CausalTileArea));
  std::shared_ptr<attention::PlannedAttention> plan =
      base::ValueOrThrow(spread_->attention->Plan(layout));
  cache_->BeginPrompts(std::move(plan), layout->spans(rank), keys, lengths);
  std::shared_ptr<mixers::PlannedMixing> mixing;
  if (mixing_ != nullptr) {
    mixing = std::make_shared<mixers::EndStates>(
        mixers::PlanMixing(layout, spread_->ranks, spread_->mixing), layout, spread_->ranks,
        [this, states](int64_t layer, const mixers::DocumentEnds& ends) {
          mixing_->Put(layer, states, ends.last_DRC, ends.state_DHVK);
        });
  }
  const auto cut = [&](const std::vector<int64_t>& stream) {
    return layout->Cut(base::ToDevice(stream, at::kCPU), rank);
  };
  const at::Tensor hidden_TD =
      Hidden(cut(ids), layout->Cut(comm::PositionsInDocuments(lengths), rank), cut(lengths_of_rows),
             mixing, /*few=*/false);
  return Logits(LastRows(*layout, hidden_TD));
}

// Returns the last row of every prompt, on every rank.
at::Tensor RowForwards::LastRows(const comm::Layout& layout, const at::Tensor& hidden_TD) const {
  comm::SpansOfRanks ends(layout.ranks());
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    for (size_t d = 0; d < layout.lengths().size(); ++d)
      ends[rank].push_back({static_cast<int64_t>(d), layout.lengths()[d] - 1, layout.lengths()[d]});
  }
  const auto map =
      std::make_shared<const comm::RowMap>(comm::SpansOf(layout), ends, spread_->ranks->rank());
  return comm::MoveRows({{hidden_TD, map, nullptr}}, spread_->ranks)[0];
}

at::Tensor RowForwards::Hidden(const at::Tensor& ids_T, const at::Tensor& positions_T,
                               const at::Tensor& lengths_T,
                               std::shared_ptr<mixers::PlannedMixing> mixing, bool few) {
  const ForwardOptions options{.lengths_T = lengths_T,
                               .mixing = std::move(mixing),
                               .hooks = {.after = options_.after},
                               .products = Products(few)};
  ++forwards_;
  rows_ += ids_T.size(0);
  return model_.Forward(ids_T, positions_T, cache_, options).hidden_TD;
}

at::Tensor RowForwards::Logits(const at::Tensor& hidden_BD) const {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const kernels::ProductScope scope(Products(/*few=*/true));
  return NextLogits(model_, hidden_BD).to(at::kCPU);
}

kernels::ProductChoice RowForwards::Products(bool few) const {
  kernels::ProductChoice products = model_.options().products;
  products.few_rows = few;
  return products;
}

}  // namespace moonring::model
