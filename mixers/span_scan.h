#ifndef MOONRING_MIXERS_SPAN_SCAN_H_
#define MOONRING_MIXERS_SPAN_SCAN_H_

// The state that comes to each span of a document whose spans lie on several ranks: an exclusive
// prefix scan over the spans' maps (span.h), in the order of the document, or from its last span to
// its first for gradients.
//
//   1. span i gives its map to span i + 1;
//   2. then, for d = 1, 2, 4, ...: span i, which has the product of the maps of [i - d, i), gives
//      it to span i + d.
//
// A product that reaches the first span is a state: its B alone travels. A document of n spans
// takes 1 + ceil(log2(n - 1)) exchanges; of n maps about n (log2(n) - 1) travel whole and n as
// states. For n <= 4 that is as many bytes as if each span gave its map to all later ones, and
// fewer beyond.
//
// Numbers: H d_k (d_k + d_v) in a map, H d_k d_v in a state, in fp32 (fp64 for fp64). All documents
// go in the same exchanges; ranks that have no span of a cut document make none.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/row_exchange.h"
#include "mixers/span.h"

namespace moonring::mixers {

// The documents that have several spans.
class SpanChains {
 public:
  SpanChains(const comm::SpansOfRanks& spans, int rank);

  struct Link {
    int rank = 0;
    int64_t span = 0;  // of the rank's, by number
  };
  // By document, from its first span to its last.
  const std::vector<std::vector<Link>>& chains() const { return chains_; }

  int rank() const { return rank_; }
  // Whether the rank's span has one of its document before it, and one after.
  bool continues(int64_t span) const { return continues_.at(span); }
  bool goes_on(int64_t span) const { return goes_on_.at(span); }

 private:
  int rank_;
  std::vector<std::vector<Link>> chains_;
  std::vector<bool> continues_, goes_on_;
};

enum class ScanOrder { kForward, kBackward };

// By this rank's spans: `maps` (of those with a span behind them in the scan's order; of the first
// in that order `a_HKK` is not read) -> the state that comes to each; undefined for the first in
// the order. Backward takes dS -> dS A + B too: give A^T and the span's own part. Throws
// StatusError.
std::vector<at::Tensor> ScanSpans(const SpanChains& chains, ScanOrder order,
                                  const std::vector<SpanMap>& maps, at::IntArrayRef state_shape,
                                  const at::TensorOptions& options, comm::Communicator& group);

// What the scan has this rank send, as Communicator counts it; `a_bytes`, `b_bytes`: of a map's
// parts.
comm::RowTraffic CountScan(const SpanChains& chains, ScanOrder order, int64_t a_bytes,
                           int64_t b_bytes);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_SPAN_SCAN_H_
