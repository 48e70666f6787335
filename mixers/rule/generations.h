#ifndef MOONRING_MIXERS_RULE_GENERATIONS_H_
#define MOONRING_MIXERS_RULE_GENERATIONS_H_

// Documents that continue another document, their parent (shared prefixes, comm/sequence.h), in
// layers that are not softmax attention. Such a document starts from its parent's final state, and
// its first convolution outputs read its parent's last rows. In the backward the parent's final
// state and last rows get the sum of the gradients from all documents that continue it.
//
// A document's ancestors are its parent, the parent's parent, and so on; its generation is their
// number: documents of generation 0 have no parent, and parents of generation g + 1 are in
// generation g. A generation is computed after the previous one, whose final states it needs; its
// documents are computed in parallel. So a shared prompt and its answers take two consecutive runs
// of the delta rule. Where documents are distributed over ranks, a parent's final state is sent
// from the rank that has its end to the ranks where its children begin: H d_k d_v numbers (H value
// heads; d_k and d_v channels of a key and a value) for each child that begins on another rank.

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

// The `taps` - 1 rows before a span that a convolution reads, in order: rows of the span's document
// and, where these are too few, of its parent, the parent's parent, and so on.
std::vector<comm::Span> RowsBefore(const comm::Span& span, int64_t taps,
                                   const std::vector<comm::Parent>& parents);

// The halo rows of each rank: the rows before each of its spans (RowsBefore), span after span.
comm::SpansOfRanks HalosOf(const comm::SpansOfRanks& spans, int64_t taps,
                           const std::vector<comm::Parent>& parents = {});

// The generations of a stream, as one rank needs them. Documents are distributed over ranks in
// spans (contiguous runs of a document's tokens).
class Generations {
 public:
  // For a single rank: every document is whole, in the stream's order.
  Generations(const std::vector<int64_t>& lengths, std::vector<comm::Parent> parents);
  Generations(const comm::Layout& layout, std::vector<comm::Parent> parents, int rank);

  size_t size() const { return all_.size(); }  // at least 1
  // All ranks' spans of a generation's documents.
  const comm::SpansOfRanks& spans(size_t generation) const { return all_[generation].spans; }
  // This rank's spans of a generation's documents, and their rows.
  const SpanRows& rows(size_t generation) const { return all_[generation].rows; }

  // Calls `rule` for each generation and joins the outputs: [T_local, H, d_v]. `rule` gets this
  // rank's rows of the generation, and an initial state for each of this rank's spans that begins a
  // document (undefined in the first generation). It must return the outputs, and the final state
  // of each span that ends a document. States are in the order of spans. Collective over a group of
  // several ranks; `group` may be null for one rank. Throws where a document continues from a token
  // before its parent's end, since the state at that token is not stored.
  using Rule = std::function<DeltaResult(size_t generation, const DeltaInputs& inputs)>;
  at::Tensor Run(const DeltaInputs& inputs, const std::shared_ptr<comm::Communicator>& group,
                 const Rule& rule) const;

 private:
  struct Generation {
    comm::SpansOfRanks spans;
    SpanRows rows;
    // Which final state of the previous generation becomes which initial state of this generation,
    // on which ranks; a state is treated as a row. Null in the first generation.
    std::shared_ptr<const comm::RowMap> states;
  };
  void Divide(const std::vector<int64_t>& lengths, const comm::SpansOfRanks& spans, int rank);
  at::Tensor FirstStates(const Generation& generation, const at::Tensor& last_DHVK,
                         const std::shared_ptr<comm::Communicator>& group) const;

  std::vector<comm::Parent> parents_;
  int64_t cut_parent_ = -1;  // index of a document that continues from a token before its parent's
                             // end; -1: none
  std::vector<Generation> all_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_GENERATIONS_H_
