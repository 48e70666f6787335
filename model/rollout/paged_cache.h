#ifndef MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_
#define MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_

// Attention of many growing sequences on one rank. It caches the keys and values of every layer in
// blocks of tokens (attention/paged/paged_keys.h).
//
// The rows of a forward are new tokens of several sequences. Before every forward, Begin sets how
// many rows each sequence has, and allocates blocks for them. Fork starts a sequence that continues
// another one; the two share the blocks of their common tokens. A partially filled shared block is
// copied by the first sequence that writes to it, so each answer to a prompt costs at most one
// block in addition to its own tokens. A sliding window limits attention, but all keys stay cached.
//
// Several ranks may share every sequence; each rank then stores the keys and values of some of its
// tokens. Prompts are computed with a sequence-parallel attention plan, and their keys stay on the
// ranks that computed them (BeginPrompts). The tokens generated after a prompt are stored on the
// ranks in turn, 64 tokens each. Every rank decodes the same rows: each layer attends to the local
// keys, and one AllGather of T H (Dv + 1) numbers (T rows, H heads) merges the ranks' partial
// results (attention/kernels/softmax_merge.h) in rank order, to the same bits on each rank.
//
// Memory: blocks in use x attention layers x 64 kv_heads (D + Dv) numbers in the dtype of k and v,
// with D and Dv the head sizes of keys and values, and up to a quarter more because the pool grows
// in steps. Blocks of closed sequences are reused. Not differentiable.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "attention/attention.h"
#include "attention/kernels/block_attention.h"
#include "attention/paged/paged_attention.h"
#include "attention/paged/paged_keys.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "model/rollout/block_pool.h"

namespace moonring::model {

class PagedCache : public attention::PlannedAttention {
 public:
  // `ranks`: the ranks that share every sequence and make the same calls; null: only this rank.
  explicit PagedCache(std::shared_ptr<comm::Communicator> ranks = nullptr)
      : ranks_(std::move(ranks)) {}

  // Opens an empty sequence and returns its number.
  int64_t Open();
  // Opens a sequence that continues `sequence`.
  int64_t Fork(int64_t sequence);
  void Close(int64_t sequence);
  int64_t tokens(int64_t sequence) const;

  struct Rows {
    int64_t sequence = 0, rows = 0;
  };
  // Sets the rows of the next forward. Each sequence may occur once.
  void Begin(const std::vector<Rows>& rows);
  // Replaces Begin for a forward of whole prompts that are split over ranks. Prompt d is the
  // sequence sequences[d], which must be empty, and has lengths[d] tokens. `spans` are the ranges
  // of the prompts' tokens that are the rows of this rank. `plan` computes the attention.
  void BeginPrompts(std::shared_ptr<attention::PlannedAttention> plan,
                    const std::vector<comm::Span>& spans, const std::vector<int64_t>& sequences,
                    const std::vector<int64_t>& lengths);

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention* kept) override;

  const BlockPool& pool() const { return pool_; }
  // Memory of all layers, including free blocks.
  int64_t bytes() const;

 private:
  struct Sequence {
    std::vector<attention::KeyBlock> blocks;  // of the tokens that this rank stores
    int64_t tokens = 0;                       // of the sequence, stored on any rank
  };
  struct Run {
    int64_t sequence = 0, rows = 0, position = 0;
  };

  Sequence& Of(int64_t sequence);
  bool IsHere(int64_t token) const;
  // Adds `rows` tokens to a sequence, and allocates cache space for those that this rank stores.
  // `row`: index of the first of these tokens among the rows of the forward.
  void Append(Sequence& sequence, int64_t rows, int64_t row);
  attention::PartialAttention MergeRanks(attention::PartialAttention here) const;

  const std::shared_ptr<comm::Communicator> ranks_;
  BlockPool pool_;
  int64_t next_sequence_ = 0;
  absl::flat_hash_map<int64_t, Sequence> sequences_;
  std::map<int64_t, attention::PagedKeys> layers_;  // by ScoreRule::layer
  // State of the current forward:
  std::shared_ptr<attention::PlannedAttention> plan_;  // of whole prompts; null: decoding
  int64_t rows_ = 0;
  std::vector<Run> runs_;
  attention::KeptTasks tasks_;               // attention tasks of the runs
  std::vector<attention::KeyPlace> places_;  // where this rank stores new keys
  std::vector<int64_t> kept_rows_;           // rows of the forward with these keys
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_PAGED_CACHE_H_
