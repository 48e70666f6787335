#ifndef MOONRING_MIXERS_RULE_SPAN_SCAN_H_
#define MOONRING_MIXERS_RULE_SPAN_SCAN_H_

// Computes the initial state of each span (a contiguous run of a document's tokens) of a document
// whose spans are on several ranks: an exclusive prefix scan over the spans' maps (span.h). The
// order is that of the document or, for gradients, from its last span to its first.
//
//   1. span i sends its map to span i + 1;
//   2. then, for d = 1, 2, 4, ...: span i, which has the product of the maps of [i - d, i), sends
//      it to span i + d.
//
// A product that begins at the first span is the state itself, so only its B is sent. A document of
// n spans takes 1 + ceil(log2(n - 1)) exchanges; about n (log2(n) - 1) whole maps and n states are
// sent. For n <= 4 these are as many bytes as if each span sent its map to all later ones, and
// fewer for larger n.
//
// Numbers, for H value heads, keys of d_k and values of d_v channels: H d_k (d_k + d_v) in a map, H
// d_k d_v in a state, in fp32 (fp64 for fp64). All documents share the same exchanges; ranks
// without a span of a cut document make none.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/row_exchange.h"
#include "mixers/rule/span.h"

namespace moonring::mixers {

// The documents that are cut into several spans. A chain is the list of a document's spans, which
// may be on several ranks.
class SpanChains {
 public:
  SpanChains(const comm::SpansOfRanks& spans, int rank);

  struct Link {
    int rank = 0;
    int64_t span = 0;  // index among the rank's spans
  };
  // For each such document, its spans from the first to the last.
  const std::vector<std::vector<Link>>& chains() const { return chains_; }

  int rank() const { return rank_; }
  // Whether this rank's span has a preceding span in its document (continues), and whether it has a
  // following one (goes_on).
  bool continues(int64_t span) const { return continues_.at(span); }
  bool goes_on(int64_t span) const { return goes_on_.at(span); }

 private:
  int rank_;
  std::vector<std::vector<Link>> chains_;
  std::vector<bool> continues_, goes_on_;
};

enum class ScanOrder { kForward, kBackward };

// Runs the scan. `maps`: one per span of this rank; needed only for spans that have a successor in
// the scan's order, and without `a_HKK` for the first span in that order. Returns the state that
// enters each span; undefined for the first span in the order. For gradients (kBackward), pass A^T
// as A and the span's own contribution as B (span.h). Throws StatusError where a peer fails.
std::vector<at::Tensor> ScanSpans(const SpanChains& chains, ScanOrder order,
                                  const std::vector<SpanMap>& maps, at::IntArrayRef state_shape,
                                  const at::TensorOptions& options, comm::Communicator& group);

// The bytes and steps of this rank's sends in the scan, as the Communicator counts them. `a_bytes`,
// `b_bytes`: bytes of a map's A and B.
comm::RowTraffic CountScan(const SpanChains& chains, ScanOrder order, int64_t a_bytes,
                           int64_t b_bytes);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_SPAN_SCAN_H_
