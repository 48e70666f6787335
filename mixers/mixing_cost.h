#ifndef MOONRING_MIXERS_MIXING_COST_H_
#define MOONRING_MIXERS_MIXING_COST_H_

// What mixing over ranks has one rank send, counted from the layout: exactly what the
// Communicator's account counts.

#include <cstdint>

#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "mixers/plan_mixing.h"

namespace moonring::mixers {

struct MixingSizes {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t taps = 0;           // 0: no convolution
  bool by_channel = false;    // g [T, H, d_k]
  int64_t element_bytes = 2;  // of x
  int64_t state_bytes = 4;    // of g, beta and states
};

struct MixingTraffic {
  comm::RowTraffic forward, backward;
};

// Of one PlannedMixing::Delta; `strategy` is kHeads or kSpans.
MixingTraffic TrafficOfDelta(MixingStrategy strategy, const comm::Layout& layout,
                             const MixingSizes& sizes, int rank);

// Of one PlannedMixing::Convolve of `channels`, under any strategy.
MixingTraffic TrafficOfConvolution(const comm::Layout& layout, int64_t channels, int64_t taps,
                                   int64_t element_bytes, int rank);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_MIXING_COST_H_
