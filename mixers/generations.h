#ifndef MOONRING_MIXERS_GENERATIONS_H_
#define MOONRING_MIXERS_GENERATIONS_H_

// Documents that go on from others (comm/sequence.h: shared prefixes) in layers that are not
// softmax attention: such a document starts from its parent's last state, and its convolution's
// first taps look at its parent's last rows. Backward both get the sum of what comes from all that
// go on from there.
//
// Generation 0 has no parents, generation g + 1 has its parents in g. A generation runs when the
// states of the one before are there, its documents side by side; so a shared prompt and its
// answers take two runs of the rule, one after another. Where documents are spread over ranks the
// last states travel from where parents end to where documents begin: H d_k d_v numbers for each
// document that begins on another rank.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/delta_inputs.h"
#include "mixers/span_rows.h"

namespace moonring::mixers {

// Of each document its generation. `parents`: one a document, not in a circle; or none.
std::vector<int64_t> GenerationsOf(const std::vector<int64_t>& lengths,
                                   const std::vector<comm::Parent>& parents);

// The rows that a convolution of so many taps wants before a span, from the first on: of its
// document, and where these are too few of its ancestors.
std::vector<comm::Span> RowsBefore(const comm::Span& span, int64_t taps,
                                   const std::vector<comm::Parent>& parents);

// By rank, those of each of its spans one after another.
comm::SpansOfRanks HalosOf(const comm::SpansOfRanks& spans, int64_t taps,
                           const std::vector<comm::Parent>& parents = {});

// The generations of a stream whose documents lie over ranks in spans, seen by one rank.
class Generations {
 public:
  // Of a single rank: every document whole, in the stream's order.
  Generations(const std::vector<int64_t>& lengths, std::vector<comm::Parent> parents);
  Generations(const comm::Layout& layout, std::vector<comm::Parent> parents, int rank);

  size_t size() const { return all_.size(); }  // at least 1
  // All ranks' spans of a generation's documents.
  const comm::SpansOfRanks& spans(size_t generation) const { return all_[generation].spans; }
  // This rank's of them.
  const SpanRows& rows(size_t generation) const { return all_[generation].rows; }

  // Calls the rule for each generation and joins what comes out: [T_local, H, d_v]. The rule gets
  // this rank's rows of the generation, and a first state for each of its spans that begins a
  // document (undefined in the first generation), and gives the last state of each span that ends
  // one, both in the order of spans. Collective over a group of several ranks; it may be null for
  // one. Throws where a document goes on from a place before its parent's end: its state is not
  // kept.
  using Rule = std::function<DeltaResult(size_t generation, const DeltaInputs& inputs)>;
  at::Tensor Run(const DeltaInputs& inputs, const std::shared_ptr<comm::Communicator>& group,
                 const Rule& rule) const;

 private:
  struct Generation {
    comm::SpansOfRanks spans;
    SpanRows rows;
    // To its first states from the last ones of the generation before, as rows; null in the first.
    std::shared_ptr<const comm::RowMap> states;
  };
  void Divide(const std::vector<int64_t>& lengths, const comm::SpansOfRanks& spans, int rank);
  at::Tensor FirstStates(const Generation& generation, const at::Tensor& last_DHVK,
                         const std::shared_ptr<comm::Communicator>& group) const;

  std::vector<comm::Parent> parents_;
  int64_t cut_parent_ = -1;  // a document that goes on from before its parent's end
  std::vector<Generation> all_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_GENERATIONS_H_
