#ifndef MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_
#define MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_

// Attention of many sequences that grow, on one rank: it keeps the keys and values of every layer
// in blocks of tokens (attention/paged_keys.h).
//
// A forward's rows are some rows of each of several sequences, which come after those that these
// have had; Begin tells which before every forward, and finds room for them. A sequence may begin
// where another one is: they share its blocks. A block that is not full is copied by who writes to
// it first while others have it, so a prompt's answers cost no more than a block each beside what
// they add. A window changes what is seen and not what is kept.
//
// Memory: blocks in use x attending layers x 64 kv_heads (D + Dv) numbers, in the dtype of k and v,
// a quarter more as the pool grows; a closed sequence's blocks are used again. Not differentiable.

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "attention/attention.h"
#include "attention/paged_keys.h"
#include "model/rollout/block_pool.h"

namespace moonring::model {

class PagedCache : public attention::PlannedAttention {
 public:
  // A sequence without tokens; its number.
  int64_t Open();
  // One that goes on where `sequence` is.
  int64_t Fork(int64_t sequence);
  void Close(int64_t sequence);
  int64_t tokens(int64_t sequence) const;

  struct Rows {
    int64_t sequence = 0, rows = 0;
  };
  // What the next forward is of: no sequence twice.
  void Begin(const std::vector<Rows>& rows);

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention* kept) override;

  const BlockPool& pool() const { return pool_; }
  // Of all layers, idle blocks too.
  int64_t bytes() const;

 private:
  using Blocks = std::vector<attention::KeyBlock>;
  struct Run {
    int64_t sequence = 0, rows = 0, position = 0;
  };

  Blocks& Of(int64_t sequence);
  void Append(Blocks& blocks, int64_t rows);

  BlockPool pool_;
  int64_t next_sequence_ = 0;
  absl::flat_hash_map<int64_t, Blocks> sequences_;
  std::map<int64_t, attention::PagedKeys> layers_;  // by ScoreRule::layer
  // Of the forward.
  std::vector<Run> runs_;
  std::vector<attention::KeyPlace> places_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_
