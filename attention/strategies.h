#ifndef MOONRING_ATTENTION_STRATEGIES_H_
#define MOONRING_ATTENTION_STRATEGIES_H_

// Strategies by name. Adding one: a row of the table in strategies.cc, and its line here.
//
//   dense         one rank
//   ulysses       heads are split over the ranks           head_exchange.h
//   ring          keys travel; later ranks do more         ring_plan.h, contiguous ownership
//   zigzag-ring   keys travel; equal work                  ring_plan.h
//   double-ring   the same in windows of ranks             ring_plan.h
//   all-gather    keys are gathered, then used; "llama3"   gather_plan.h
//   usp           heads x context                          hybrid_attention.h
//   auto          one of these for each micro-batch        auto_attention.h
//
// All but "ring" divide the context axis in zigzag. A group of one rank runs the dense plan under
// any name.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/auto_attention.h"
#include "attention/device_tile_runner.h"
#include "attention/hybrid_attention.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

// What a strategy may be told beside its name. 0: it chooses.
struct StrategyOptions {
  std::string name;
  // usp: places on the heads and on the context axis; the product is the number of ranks. Where
  // both are chosen, the heads get the largest divisor of the ranks up to their root, or a greater
  // one that divides the kv heads; one given settles the other.
  int ulysses_degree = 0, ring_degree = 0;
  comm::Placement placement = comm::Placement::kHeadFirst;
  // double-ring: ranks of a window, a divisor of the ranks. Chosen: those of a machine, where there
  // are several of them; else the largest divisor up to the root.
  int double_ring_window = 0;
  int ranks_per_machine = 0;  // neighbours that share one; 0: all do
  AttentionShape shape;  // what "auto" counts for, and usp's axes are chosen for; 0 heads: unknown
};

// All names, "auto" and "dense" among them.
std::vector<std::string> StrategyNames();

// INVALID_ARGUMENT for an unknown name (the message lists the known), "dense" on several ranks,
// degrees and windows that do not divide. "auto" is none: it is many.
absl::StatusOr<Strategy> ResolveStrategy(const StrategyOptions& options, int ranks);

struct AttentionOptions {
  StrategyOptions strategy;
  std::shared_ptr<comm::Communicator> group;
  TileRunners runners = DeviceTileRunner;  // the kernels
  MachineModel machine = {};               // what "auto" counts with
};

// As ResolveStrategy; also where there is no group, or "auto" does not know the heads.
absl::StatusOr<std::unique_ptr<Attention>> CreateAttention(AttentionOptions options);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGIES_H_
