#include "model/rollout/paged_cache.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "attention/kernels/sink.h"
#include "attention/kernels/softmax_merge.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/status/torch_status.h"

namespace moonring::model {

using attention::KeyBlock;
using attention::kKeyBlock;

PagedCache::Sequence& PagedCache::Of(int64_t sequence) {
  const auto found = sequences_.find(sequence);
  TORCH_CHECK(found != sequences_.end(), "paged cache: sequence ", sequence, " is not open");
  return found->second;
}

int64_t PagedCache::Open() {
  sequences_[next_sequence_];
  return next_sequence_++;
}

int64_t PagedCache::Fork(int64_t sequence) {
  Sequence fork = Of(sequence);
  for (const KeyBlock& block : fork.blocks) pool_.Share(block.block);
  sequences_[next_sequence_] = std::move(fork);
  return next_sequence_++;
}

void PagedCache::Close(int64_t sequence) {
  for (const KeyBlock& block : Of(sequence).blocks) pool_.Free(block.block);
  sequences_.erase(sequence);
}

int64_t PagedCache::tokens(int64_t sequence) const {
  return const_cast<PagedCache*>(this)->Of(sequence).tokens;
}

bool PagedCache::IsHere(int64_t token) const {
  return ranks_ == nullptr || token / kKeyBlock % ranks_->size() == ranks_->rank();
}

void PagedCache::Append(Sequence& sequence, int64_t rows, int64_t row) {
  std::vector<KeyBlock>& blocks = sequence.blocks;
  for (const int64_t end = row + rows; row < end; ++row) {
    const int64_t token = sequence.tokens++;
    if (!IsHere(token)) continue;
    const bool goes_on =
        !blocks.empty() && blocks.back().tokens < kKeyBlock && blocks.back().end() == token;
    if (!goes_on) {
      blocks.push_back({pool_.Take(), token, 0});
    } else if (pool_.users(blocks.back().block) > 1) {
      const int64_t shared = blocks.back().block;
      blocks.back().block = pool_.Take();
      pool_.Free(shared);
      for (auto& [number, layer] : layers_) {
        layer.Reserve(pool_.size());
        layer.Copy(shared, blocks.back().block);
      }
    }
    places_.push_back({blocks.back().block, blocks.back().tokens++});
    kept_rows_.push_back(row);
  }
}

void PagedCache::Begin(const std::vector<Rows>& rows) {
  const at::NoGradGuard no_grad;
  plan_ = nullptr;
  tasks_ = {};
  runs_.clear();
  places_.clear();
  kept_rows_.clear();
  rows_ = 0;
  for (const Rows& of : rows) {
    Sequence& sequence = Of(of.sequence);
    runs_.push_back({of.sequence, of.rows, sequence.tokens});
    Append(sequence, of.rows, rows_);
    rows_ += of.rows;
  }
}

void PagedCache::BeginPrompts(std::shared_ptr<attention::PlannedAttention> plan,
                              const std::vector<comm::Span>& spans,
                              const std::vector<int64_t>& sequences,
                              const std::vector<int64_t>& lengths) {
  plan_ = std::move(plan);
  runs_.clear();
  places_.clear();
  kept_rows_.clear();
  rows_ = 0;
  for (size_t d = 0; d < sequences.size(); ++d) {
    Sequence& sequence = Of(sequences[d]);
    TORCH_CHECK(sequence.tokens == 0, "paged cache: a prompt for a sequence of ", sequence.tokens,
                " tokens");
    sequence.tokens = lengths[d];
  }
  for (const comm::Span& span : spans) {
    std::vector<KeyBlock>& blocks = Of(sequences.at(span.document)).blocks;
    for (int64_t first = span.begin; first < span.end; first += kKeyBlock) {
      blocks.push_back({pool_.Take(), first, std::min(kKeyBlock, span.end - first)});
      for (int64_t row = 0; row < blocks.back().tokens; ++row) {
        places_.push_back({blocks.back().block, row});
        kept_rows_.push_back(rows_++);
      }
    }
  }
}

attention::PartialAttention PagedCache::MergeRanks(attention::PartialAttention here) const {
  if (ranks_ == nullptr || ranks_->size() == 1) return here;
  const at::Tensor mine = at::cat({here.out_MHD, here.lse_MH.unsqueeze(2)}, 2);
  const std::vector<at::Tensor> parts = base::ValueOrThrow(
      ranks_->AllGather(mine, std::vector<int64_t>(ranks_->size(), mine.size(0))));
  const int64_t value_dim = here.out_MHD.size(2);
  attention::SoftmaxState state =
      attention::SoftmaxState::Empty(mine.size(0), mine.size(1), value_dim, here.out_MHD.options());
  for (const at::Tensor& part : parts) {
    attention::Merge(
        {part.narrow(2, 0, value_dim).contiguous(), part.select(2, value_dim).contiguous()}, state);
  }
  return attention::Finish(std::move(state));
}

at::Tensor PagedCache::Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                               const at::Tensor& v_TKD, const attention::ScoreRule& rule,
                               attention::KeptAttention* kept) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "paged cache: attention for decoding has no gradient; run it without grad mode");
  TORCH_CHECK(rows_ == q_THD.size(0), "paged cache: ", q_THD.size(0), " rows in a forward of ",
              rows_);
  const base::MemoryScope memory(base::MemoryPart::kAttention);
  if (plan_ == nullptr && rows_ == 0)
    return at::empty({0, q_THD.size(1), v_TKD.size(2)}, q_THD.options());
  attention::PagedKeys& layer = layers_[rule.layer];
  layer.Fit(k_TKD, v_TKD);
  layer.Reserve(std::max<int64_t>(1, pool_.size()));
  if (static_cast<int64_t>(places_.size()) == rows_) {
    layer.Write(places_, k_TKD, v_TKD);
  } else {
    const at::Tensor some = base::ToDevice(kept_rows_, k_TKD.device());
    layer.Write(places_, k_TKD.index_select(0, some), v_TKD.index_select(0, some));
  }
  if (plan_ != nullptr) return plan_->Forward(q_THD, k_TKD, v_TKD, rule, kept);
  std::vector<attention::PagedRun> runs;
  for (const Run& run : runs_) runs.push_back({run.rows, run.position, Of(run.sequence).blocks});
  const attention::PartialAttention whole = MergeRanks(attention::PagedAttention(
      q_THD, layer, runs, {.score = {rule.scale, rule.softcap}, .window = rule.window}, &tasks_));
  if (rule.sink_H.defined()) attention::AddSink(rule.sink_H, whole);
  return whole.out_MHD.to(q_THD.scalar_type());
}

int64_t PagedCache::bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, layer] : layers_) bytes += layer.bytes();
  return bytes;
}

}  // namespace moonring::model
