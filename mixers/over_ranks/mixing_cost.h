#ifndef MOONRING_MIXERS_OVER_RANKS_MIXING_COST_H_
#define MOONRING_MIXERS_OVER_RANKS_MIXING_COST_H_

// The cost of PlannedMixing (planned_mixing.h) over ranks, computed from the layout: the bytes and
// steps that a rank sends, exactly as the Communicator counts them, and a predicted time, by which
// the strategy `auto` chooses.
//
// The predicted seconds of the slowest rank for one PlannedMixing::Delta, forward and backward:
//
//   flops / flops per second + steps of scans over chunks x seconds per step
//       + bytes / bytes per second + steps of exchanges x seconds per step
//
//   heads  all tokens, for the heads of the rank with the most heads; rows are sent
//   spans  a rank's tokens, for all heads; for each span (a contiguous run of a document's tokens
//          on a rank) that does not begin its document, as much as its forward once more for its
//          contribution to the initial state's gradient, and again, unless it ends its document,
//          for the map by which it changes the state (span.h); 2 d_k^2 (d_k + d_v) flops per head
//          to compose two maps; maps are sent
//   relay  a rank's tokens, for all heads, after the state before them has arrived. Ranks work in
//          rounds (relay_schedule.h), each rank as early as possible
//
// The rule is assumed to have 2 (64 (3 d_k + 2 d_v) + 3 d_k d_v + 64^2 / 3) flops per token and
// value head in the forward (d_k and d_v: channels of a key and of a value), and three times that
// in the backward (delta_chunks.h). Where heads are processed in groups (relay_schedule.h, or
// TilesOf in packed_heads.h), the chunks are scanned once for each group. The convolution costs the
// same in all strategies.
//
// The machine's speeds are constants (MachineModel) that are not measured in the run: the choice
// must be the same on every rank and in every run, so it depends only on the layout, the sizes and
// these constants.

#include <compare>
#include <cstdint>

#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "mixers/over_ranks/mixing_strategy.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {

struct MixingSizes {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t taps = 0;           // 0: no convolution
  bool by_channel = false;    // g is [T, H, d_k]
  int64_t element_bytes = 2;  // of x
  int64_t state_bytes = 4;    // of g, beta and states

  int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  auto operator<=>(const MixingSizes&) const = default;
};

struct MixingTraffic {
  comm::RowTraffic forward, backward;
};

// The bytes and steps of `rank` for one PlannedMixing::Delta; `strategy` must not be kAuto.
MixingTraffic TrafficOfDelta(MixingStrategy strategy, const comm::Layout& layout,
                             const MixingSizes& sizes, int rank);

// The bytes and steps of `rank` for one PlannedMixing::Convolve with `channels` channels; the same
// for all strategies.
MixingTraffic TrafficOfConvolution(const comm::Layout& layout, int64_t channels, int64_t taps,
                                   int64_t element_bytes, int rank);

// Speeds per rank. The defaults are those of a CPU core that talks to its neighbours over loopback,
// measured on a busy EPYC (AVX-512). tests/mixers/mixing_benchmark.cc prints flops (4.0e10),
// scan_seconds (3.7e-5), step_seconds (3.8e-5) and the bytes per second of a plain exchange
// (2.1e9). `bytes` is a fifth of that, since it includes the time to gather rows before the
// exchange and to store them after it. It was measured by tests/peers/compare_delta.py: the bytes
// sent, divided by the extra CPU seconds of the rule over 2 ranks (strategy heads) compared with
// one rank.
struct MachineModel {
  double flops = 4e10;         // per second, of the rule's products
  double scan_seconds = 4e-5;  // per chunk in a scan, for any number of heads
  double bytes = 4e8;          // per second, to other ranks
  double step_seconds = 4e-5;  // per step of an exchange
  int64_t working_numbers = kCpuWorkingNumbers;
};

// Estimated speeds of a GPU like the H100, with fp32 products, a scan in one kernel
// (kernels/delta_scan.h: about 10^4 cycles per chunk), and NVLink.
inline constexpr MachineModel kGpuMachine{5e13, 5e-6, 2e11, 2e-5, kGpuWorkingNumbers};

double EstimateSeconds(MixingStrategy strategy, const comm::Layout& layout,
                       const MixingSizes& sizes, const MachineModel& machine);

// The strategy with the least predicted time; among equal ones the first in kMixingStrategies.
MixingStrategy ChooseMixing(const comm::Layout& layout, const MixingSizes& sizes,
                            const MachineModel& machine);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_MIXING_COST_H_
