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
// Several ranks may hold every sequence together, each some of its tokens' keys and values. Prompts
// are attended to by a plan of a strategy and stay as its layout has them (BeginPrompts); of the
// tokens after them 64 go to one rank and the next 64 to another. Every rank decodes the same rows:
// a layer attends over the keys that are here, and one AllGather of T H (D_v + 1) numbers merges
// the ranks' parts (attention/softmax_merge.h), in their order, to the same bits on each.
//
// Memory: blocks in use x attending layers x 64 kv_heads (D + Dv) numbers, in the dtype of k and v,
// a quarter more as the pool grows; a closed sequence's blocks are used again. Not differentiable.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "attention/attention.h"
#include "attention/block_attention.h"
#include "attention/paged_attention.h"
#include "attention/paged_keys.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "model/rollout/block_pool.h"

namespace moonring::model {

class PagedCache : public attention::PlannedAttention {
 public:
  // `ranks`: who hold the sequences together, and make the same calls; null: this rank alone.
  explicit PagedCache(std::shared_ptr<comm::Communicator> ranks = nullptr)
      : ranks_(std::move(ranks)) {}

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
  // The same of a forward of whole prompts, whose rows here are `spans` of documents: document d is
  // sequences[d], which has no tokens yet. `plan` attends.
  void BeginPrompts(std::shared_ptr<attention::PlannedAttention> plan,
                    const std::vector<comm::Span>& spans, const std::vector<int64_t>& sequences,
                    const std::vector<int64_t>& lengths);

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention* kept) override;

  const BlockPool& pool() const { return pool_; }
  // Of all layers, idle blocks too.
  int64_t bytes() const;

 private:
  struct Sequence {
    std::vector<attention::KeyBlock> blocks;  // that are here
    int64_t tokens = 0;                       // here or elsewhere
  };
  struct Run {
    int64_t sequence = 0, rows = 0, position = 0;
  };

  Sequence& Of(int64_t sequence);
  bool IsHere(int64_t token) const;
  // A place for each of the next tokens that are here. `row`: of the forward, the first one's.
  void Append(Sequence& sequence, int64_t rows, int64_t row);
  attention::PartialAttention MergeRanks(attention::PartialAttention here) const;

  const std::shared_ptr<comm::Communicator> ranks_;
  BlockPool pool_;
  int64_t next_sequence_ = 0;
  absl::flat_hash_map<int64_t, Sequence> sequences_;
  std::map<int64_t, attention::PagedKeys> layers_;  // by ScoreRule::layer
  // Of the forward.
  std::shared_ptr<attention::PlannedAttention> plan_;  // null: rows are decoded
  int64_t rows_ = 0;
  std::vector<Run> runs_;
  attention::KeptTasks tasks_;               // of the runs
  std::vector<attention::KeyPlace> places_;  // of the rows whose keys stay here,
  std::vector<int64_t> kept_rows_;           // these
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_
