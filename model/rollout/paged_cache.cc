#include "model/rollout/paged_cache.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "attention/paged_attention.h"
#include "attention/sink.h"
#include "comm/memory/memory_account.h"

namespace moonring::model {

using attention::KeyBlock;
using attention::kKeyBlock;

PagedCache::Blocks& PagedCache::Of(int64_t sequence) {
  const auto found = sequences_.find(sequence);
  TORCH_CHECK(found != sequences_.end(), "paged cache: sequence ", sequence, " is not open");
  return found->second;
}

int64_t PagedCache::Open() {
  sequences_[next_sequence_];
  return next_sequence_++;
}

int64_t PagedCache::Fork(int64_t sequence) {
  Blocks blocks = Of(sequence);
  for (const KeyBlock& block : blocks) pool_.Share(block.block);
  sequences_[next_sequence_] = std::move(blocks);
  return next_sequence_++;
}

void PagedCache::Close(int64_t sequence) {
  for (const KeyBlock& block : Of(sequence)) pool_.Free(block.block);
  sequences_.erase(sequence);
}

int64_t PagedCache::tokens(int64_t sequence) const {
  const Blocks& blocks = const_cast<PagedCache*>(this)->Of(sequence);
  return blocks.empty() ? 0 : blocks.back().end();
}

void PagedCache::Append(Blocks& blocks, int64_t rows) {
  if (rows > 0 && !blocks.empty() && blocks.back().tokens < kKeyBlock &&
      pool_.users(blocks.back().block) > 1) {
    const int64_t shared = blocks.back().block;
    blocks.back().block = pool_.Take();
    pool_.Free(shared);
    for (auto& [number, layer] : layers_) {
      layer.Reserve(pool_.size());
      layer.Copy(shared, blocks.back().block);
    }
  }
  while (rows > 0) {
    if (blocks.empty() || blocks.back().tokens == kKeyBlock)
      blocks.push_back({pool_.Take(), blocks.empty() ? 0 : blocks.back().end(), 0});
    KeyBlock& last = blocks.back();
    const int64_t more = std::min(rows, kKeyBlock - last.tokens);
    for (int64_t row = 0; row < more; ++row) places_.push_back({last.block, last.tokens + row});
    last.tokens += more;
    rows -= more;
  }
}

void PagedCache::Begin(const std::vector<Rows>& rows) {
  const at::NoGradGuard no_grad;
  runs_.clear();
  places_.clear();
  for (const Rows& of : rows) {
    runs_.push_back({of.sequence, of.rows, tokens(of.sequence)});
    Append(Of(of.sequence), of.rows);
  }
}

at::Tensor PagedCache::Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                               const at::Tensor& v_TKD, const attention::ScoreRule& rule,
                               attention::KeptAttention* /*kept*/) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "paged cache: attention for decoding has no gradient; run it without grad mode");
  TORCH_CHECK(static_cast<int64_t>(places_.size()) == q_THD.size(0), "paged cache: ", q_THD.size(0),
              " rows in a forward of ", places_.size());
  const comm::MemoryScope memory(comm::MemoryPart::kAttention);
  if (places_.empty()) return at::empty({0, q_THD.size(1), v_TKD.size(2)}, q_THD.options());
  attention::PagedKeys& layer = layers_[rule.layer];
  layer.Fit(k_TKD, v_TKD);
  layer.Reserve(pool_.size());
  layer.Write(places_, k_TKD, v_TKD);
  std::vector<attention::PagedRun> runs;
  for (const Run& run : runs_) runs.push_back({run.rows, run.position, Of(run.sequence)});
  const attention::PartialAttention whole = attention::PagedAttention(
      q_THD, layer, runs, {.score = {rule.scale, rule.softcap}, .window = rule.window});
  if (rule.sink_H.defined()) attention::AddSink(rule.sink_H, whole);
  return whole.out_MHD.to(q_THD.scalar_type());
}

int64_t PagedCache::bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, layer] : layers_) bytes += layer.bytes();
  return bytes;
}

}  // namespace moonring::model
