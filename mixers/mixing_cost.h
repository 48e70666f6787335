#ifndef MOONRING_MIXERS_MIXING_COST_H_
#define MOONRING_MIXERS_MIXING_COST_H_

// What mixing over ranks costs, counted from the layout: bytes and steps that a rank sends, exactly
// as the Communicator's account counts them, and an estimate of the time, by which `auto` chooses.
//
// The slowest rank's seconds of one PlannedMixing::Delta, forward and backward:
//
//   flops / flops a second + steps of scans over chunks x seconds of one + bytes / bytes a second +
//   exchanges' steps x seconds of one
//
//   heads  all tokens, of the heads of the fullest rank; rows travel
//   spans  a rank's tokens, of all heads; the maps, as much again where a span has neighbours on
//          both sides; composing them, 2 d_k^2 (d_k + d_v) flop a head for each; maps travel
//   relay  a rank's tokens, of all heads, when the state before has come: from round to round
//          (relay_schedule.h), each rank as early as it can
//
// The rule is taken to have 2 (64 (3 d_k + 2 d_v) + 3 d_k d_v + 64^2 / 3) flop a token and value
// head forward, three times that backward (delta_chunks.h). Heads that go in groups, or by
// TilesOf, scan their chunks again for each. The convolution costs the same under all.
//
// The machine is described, not measured by a run: the choice must be the same on
// every rank and in every run. A function of layout, sizes and machine alone.

#include <compare>
#include <cstdint>

#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "mixers/mixing_strategy.h"
#include "mixers/packed_heads.h"

namespace moonring::mixers {

struct MixingSizes {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t taps = 0;           // 0: no convolution
  bool by_channel = false;    // g [T, H, d_k]
  int64_t element_bytes = 2;  // of x
  int64_t state_bytes = 4;    // of g, beta and states

  int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  auto operator<=>(const MixingSizes&) const = default;
};

struct MixingTraffic {
  comm::RowTraffic forward, backward;
};

// Of one PlannedMixing::Delta; `strategy` is not kAuto.
MixingTraffic TrafficOfDelta(MixingStrategy strategy, const comm::Layout& layout,
                             const MixingSizes& sizes, int rank);

// Of one PlannedMixing::Convolve of `channels`, under any strategy.
MixingTraffic TrafficOfConvolution(const comm::Layout& layout, int64_t channels, int64_t taps,
                                   int64_t element_bytes, int rank);

// Per rank. The defaults: a core of a CPU among its neighbours over loopback, measured on an EPYC
// (AVX-512) with other work beside it. tests/mixers/mixing_benchmark.cc prints flops (4.0e10),
// scan_seconds (3.7e-5), step_seconds (3.8e-5) and the bytes a second of an exchange alone (2.1e9).
// Rows are gathered before it and put in place after it, for which a rank has a fifth of that left:
// what the rule over 2 ranks by heads takes beyond one rank, in seconds of CPU, over the bytes
// (tests/peers/compare_delta.py).
struct MachineModel {
  double flops = 4e10;         // of the rule's products, a second
  double scan_seconds = 4e-5;  // of a chunk in a scan, for any number of heads
  double bytes = 4e8;          // a second, to other ranks
  double step_seconds = 4e-5;  // of an exchange
  int64_t working_numbers = kCpuWorkingNumbers;
};

// A GPU of the H100's kind, by reasoning: fp32 products, a scan in one kernel
// (kernels/delta_scan.h: some 10^4 cycles a chunk), NVLink.
inline constexpr MachineModel kGpuMachine{5e13, 5e-6, 2e11, 2e-5, kGpuWorkingNumbers};

double EstimateSeconds(MixingStrategy strategy, const comm::Layout& layout,
                       const MixingSizes& sizes, const MachineModel& machine);

// That of the least estimate; of equal ones the first of kMixingStrategies.
MixingStrategy ChooseMixing(const comm::Layout& layout, const MixingSizes& sizes,
                            const MachineModel& machine);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_MIXING_COST_H_
