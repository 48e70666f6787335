#ifndef MOONRING_MIXERS_RULE_GENERATIONS_H_
#define MOONRING_MIXERS_RULE_GENERATIONS_H_

// Documents that continue others (shared prefixes, comm/sequence.h) in layers that are not softmax
// attention. Such a document starts from its parent's final state, and the first taps of its
// convolution read its parent's last rows. In the backward the parent's state and rows get the sum
// of the gradients of all documents that continue it.
//
// Generation 0 has no parents; the parents of generation g + 1 are in generation g. A generation
// runs when the states of the previous one are known, and its documents run in parallel: a shared
// prompt and its answers take two consecutive runs of the rule. Where documents are spread over
// ranks, final states are sent from where parents end to where documents begin: H d_k d_v numbers
// for each document that begins on another rank.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/span_rows.h"

namespace moonring::mixers {

// The generation of each document. `parents`: one per document, without cycles; or empty.
std::vector<int64_t> GenerationsOf(const std::vector<int64_t>& lengths,
                                   const std::vector<comm::Parent>& parents);

// The rows before a span that a convolution with `taps` taps reads, from the first on: rows of its
// document and, where these are too few, of its ancestors.
std::vector<comm::Span> RowsBefore(const comm::Span& span, int64_t taps,
                                   const std::vector<comm::Parent>& parents);

// The halo rows of each rank: those of each of its spans, concatenated.
comm::SpansOfRanks HalosOf(const comm::SpansOfRanks& spans, int64_t taps,
                           const std::vector<comm::Parent>& parents = {});

// The generations of a stream whose documents are distributed over ranks in spans, from the view of
// one rank.
class Generations {
 public:
  // For a single rank: every document is whole, in the stream's order.
  Generations(const std::vector<int64_t>& lengths, std::vector<comm::Parent> parents);
  Generations(const comm::Layout& layout, std::vector<comm::Parent> parents, int rank);

  size_t size() const { return all_.size(); }  // at least 1
  // All ranks' spans of a generation's documents.
  const comm::SpansOfRanks& spans(size_t generation) const { return all_[generation].spans; }
  // This rank's rows of these spans.
  const SpanRows& rows(size_t generation) const { return all_[generation].rows; }

  // Calls the rule for each generation and joins the outputs: [T_local, H, d_v]. The rule gets this
  // rank's rows of the generation, and an initial state for each of its spans that begins a
  // document (undefined in the first generation). It returns the final state of each span that ends
  // a document. Both are in the order of spans. Collective over a group of several ranks; `group`
  // may be null for one rank. Throws where a document continues from a token before its parent's
  // end, since that state is not stored.
  using Rule = std::function<DeltaResult(size_t generation, const DeltaInputs& inputs)>;
  at::Tensor Run(const DeltaInputs& inputs, const std::shared_ptr<comm::Communicator>& group,
                 const Rule& rule) const;

 private:
  struct Generation {
    comm::SpansOfRanks spans;
    SpanRows rows;
    // Moves the final states of the previous generation to this one's initial states, as rows; null
    // in the first.
    std::shared_ptr<const comm::RowMap> states;
  };
  void Divide(const std::vector<int64_t>& lengths, const comm::SpansOfRanks& spans, int rank);
  at::Tensor FirstStates(const Generation& generation, const at::Tensor& last_DHVK,
                         const std::shared_ptr<comm::Communicator>& group) const;

  std::vector<comm::Parent> parents_;
  int64_t cut_parent_ = -1;  // a document that continues from before its parent's end, or -1
  std::vector<Generation> all_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_GENERATIONS_H_
