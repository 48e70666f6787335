#ifndef MOONRING_MODEL_ROLLOUT_ROW_FORWARDS_H_
#define MOONRING_MODEL_ROLLOUT_ROW_FORWARDS_H_

// The forwards of a rollout: rows (tokens) of many sequences at once, with the caches that hold
// their keys, values and recurrent states. Which rows run together is decided elsewhere
// (rollout.h).

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "comm/layout.h"
#include "mixers/over_ranks/batch_mixing.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "model/rollout/paged_cache.h"
#include "model/rollout/rollout_options.h"
#include "model/transformer.h"

namespace moonring::model {

struct RolloutReport {
  int64_t forwards = 0, rows = 0;
  int64_t most_blocks = 0;  // peak number of key-value blocks in use
  int64_t blocks_left = 0;  // blocks in use at the end; 0 unless there is a leak
  int64_t cache_bytes = 0;  // size of the caches at the end, including free blocks
};

// A sequence in the caches: a prompt, or one answer to it.
struct CachedSequence {
  int64_t keys = 0, state = 0;  // the sequence's numbers in the two caches
  int64_t tokens = 0;           // cached tokens
};

// The rows of one forward.
struct ForwardRows {
  std::vector<int64_t> ids, positions, lengths;
  std::vector<PagedCache::Rows> keys;
  std::vector<mixers::BatchMixing::Rows> states;
  std::vector<int64_t> wanted;  // rows whose logits are needed

  // Adds the next tokens of a sequence. `length`: the sequence's number of tokens, on which the
  // rotary angles of some models depend.
  void Add(CachedSequence& sequence, absl::Span<const int64_t> some, int64_t length);
};

// A prompt that ranks compute together.
struct WholePrompt {
  absl::Span<const int64_t> ids;
  CachedSequence* sequence;
};

class RowForwards {
 public:
  // Both must outlive this object.
  RowForwards(Transformer& model, const RolloutOptions& options);

  CachedSequence Open();
  CachedSequence Fork(const CachedSequence& from);
  void Close(const CachedSequence& sequence);

  // Runs a forward and returns the logits [B, V] of its wanted rows, in fp32 (fp64 for fp64), on
  // the CPU. `few`: use matrix products in which the bits of a row do not depend on the other rows.
  at::Tensor Run(const ForwardRows& rows, bool few);

  // Computes whole prompts with sequence-parallel attention over the ranks that share them, and
  // returns the logits [B, V] after each, on every rank.
  at::Tensor RunWhole(absl::Span<const WholePrompt> prompts);

  // The ranks that share every sequence; null: only this rank.
  const SpreadSequences* spread() const { return spread_; }
  RolloutReport report() const;

 private:
  at::Tensor LastRows(const comm::Layout& layout, const at::Tensor& hidden_TD) const;
  at::Tensor Hidden(const at::Tensor& ids_T, const at::Tensor& positions_T,
                    const at::Tensor& lengths_T, std::shared_ptr<mixers::PlannedMixing> mixing,
                    bool few);
  at::Tensor Logits(const at::Tensor& hidden_BD) const;
  kernels::ProductChoice Products(bool few) const;

  Transformer& model_;
  const RolloutOptions& options_;
  const SpreadSequences* const spread_;
  const std::shared_ptr<PagedCache> cache_;
  std::shared_ptr<mixers::BatchMixing> mixing_;  // null if all layers are softmax attention
  int64_t forwards_ = 0, rows_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROW_FORWARDS_H_
