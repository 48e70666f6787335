#ifndef MOONRING_ATTENTION_STRATEGIES_H_
#define MOONRING_ATTENTION_STRATEGIES_H_

// Strategies by name: the one place that knows them all.
//
//   dense         one rank
//   ulysses       heads are split over the ranks      contiguous ownership
//   ring          keys travel                         contiguous ownership: later ranks do more
//   zigzag-ring   keys travel                         zigzag ownership: equal work
//
// A group of one rank runs the dense plan under any name.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/block_attention.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

struct AttentionOptions {
  std::string strategy;
  std::shared_ptr<comm::Communicator> group;
  std::shared_ptr<const BlockAttention> block = nullptr;  // the kernels; by default those of the device
};

// INVALID_ARGUMENT for an unknown name (the message lists the known), for "dense" on several ranks, for no group.
absl::StatusOr<std::unique_ptr<Attention>> CreateAttention(AttentionOptions options);

// What a layer costs each rank of the layout under a strategy.
absl::StatusOr<AttentionCost> CostOfAttention(const std::string& strategy, const comm::Layout& layout, const AttentionShape& shape);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGIES_H_
