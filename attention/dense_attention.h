#ifndef MOONRING_ATTENTION_DENSE_ATTENTION_H_
#define MOONRING_ATTENTION_DENSE_ATTENTION_H_

// Attention on one rank that owns the whole stream: the reference that every other strategy equals, on the same tiles.
//
// Communication: none. Memory for backward: q, k, v, and out and lse in fp32: T (H D + 2 Hk D) e + T H (4 D + 4) bytes (out is
// shared with the result where that is fp32).

#include <memory>
#include <utility>

#include "attention/attention.h"
#include "attention/block_attention.h"

namespace moonring::attention {

class DenseAttention final : public Attention {
 public:
  explicit DenseAttention(std::shared_ptr<const BlockAttention> block) : block_(std::move(block)) {}

  absl::string_view name() const override { return "dense"; }
  comm::Ownership ownership() const override;

  // INVALID_ARGUMENT for a layout of more than one rank.
  absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout) override;

 private:
  std::shared_ptr<const BlockAttention> block_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_DENSE_ATTENTION_H_
