#ifndef MOONRING_ATTENTION_STRATEGY_STRATEGIES_H_
#define MOONRING_ATTENTION_STRATEGY_STRATEGIES_H_

// Strategies by name. The table in strategies.cc lists them; all other code reads it. All except
// "ring" divide the stream over the context axis in zigzag (comm/layout.h). With one rank, every
// name selects the dense strategy.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/kernels/device_tile_runner.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/auto_attention.h"
#include "attention/strategy/hybrid_attention.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

// Options of a strategy. 0 in a degree or window: the strategy chooses the value.
struct StrategyOptions {
  std::string name;
  // usp: numbers of ranks on the heads axis and on the context axis; their product is the number of
  // ranks. If one is given, it determines the other. If both are 0, the heads axis gets the largest
  // divisor of the ranks up to their square root, or a greater one that divides the kv heads.
  int ulysses_degree = 0, ring_degree = 0;
  comm::Placement placement = comm::Placement::kHeadFirst;
  // double-ring: ranks per window, a divisor of the number of ranks. By default, the ranks of a
  // machine where there are several machines; else the largest divisor of the number of ranks up to
  // its square root.
  int double_ring_window = 0;
  int ranks_per_machine = 0;  // consecutive ranks that share a machine; 0: all do
  AttentionShape shape;       // heads and head dims by which "auto" and usp choose; 0 heads:
                              // unknown
};

// All names, including "auto" and "dense".
std::vector<std::string> StrategyNames();

// INVALID_ARGUMENT for an unknown name (the message lists the known ones), for "dense" on several
// ranks, for degrees and windows that do not divide the ranks, and for "auto", which is not a
// single strategy.
absl::StatusOr<Strategy> ResolveStrategy(const StrategyOptions& options, int ranks);

// The strategies from which "auto" chooses, with the options' placement and ranks per machine.
// Among equal ones it chooses the first. `ranks`: at least 2.
std::vector<Strategy> CandidatesOfAuto(const StrategyOptions& options, int ranks);

struct AttentionOptions {
  StrategyOptions strategy;
  std::shared_ptr<comm::Communicator> group;
  TileRunners runners = DeviceTileRunner;  // the kernels
  MachineModel machine = {};               // the speeds that "auto" assumes
};

// Creates the strategy that the options name. Returns the errors of ResolveStrategy, and an error
// if the group is null or if "auto" does not know the numbers of heads.
absl::StatusOr<std::unique_ptr<Attention>> CreateAttention(AttentionOptions options);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_STRATEGIES_H_
