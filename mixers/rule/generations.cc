#include "mixers/rule/generations.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

namespace moonring::mixers {
namespace {

comm::SpansOfRanks WholeDocuments(const std::vector<int64_t>& lengths) {
  comm::SpansOfRanks spans(1);
  for (size_t d = 0; d < lengths.size(); ++d)
    spans[0].push_back({static_cast<int64_t>(d), 0, lengths[d]});
  return spans;
}

// The parent of a document, or the nearest ancestor of which at least one token is shared.
comm::Parent ParentOf(const std::vector<comm::Parent>& parents, int64_t document) {
  if (parents.empty()) return {};
  comm::Parent parent = parents[document];
  while (parent.document >= 0 && parent.tokens == 0) parent = parents[parent.document];
  return parent;
}

}  // namespace

std::vector<int64_t> GenerationsOf(const std::vector<int64_t>& lengths,
                                   const std::vector<comm::Parent>& parents) {
  std::vector<int64_t> generations(lengths.size(), 0);
  for (size_t d = 0; d < lengths.size(); ++d) {
    for (auto at = ParentOf(parents, static_cast<int64_t>(d)); at.document >= 0;
         at = ParentOf(parents, at.document))
      ++generations[d];
  }
  return generations;
}

std::vector<comm::Span> RowsBefore(const comm::Span& span, int64_t taps,
                                   const std::vector<comm::Parent>& parents) {
  std::vector<comm::Span> rows;  // collected from the last row backwards
  int64_t wanted = taps - 1;
  comm::Parent at{span.document, span.begin};
  while (wanted > 0 && at.document >= 0) {
    const int64_t begin = std::max<int64_t>(0, at.tokens - wanted);
    if (at.tokens > begin) rows.push_back({at.document, begin, at.tokens});
    wanted -= at.tokens - begin;
    at = ParentOf(parents, at.document);
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

comm::SpansOfRanks HalosOf(const comm::SpansOfRanks& spans, int64_t taps,
                           const std::vector<comm::Parent>& parents) {
  comm::SpansOfRanks halos(spans.size());
  for (size_t rank = 0; rank < spans.size(); ++rank) {
    for (const comm::Span& span : spans[rank]) {
      const std::vector<comm::Span> rows = RowsBefore(span, taps, parents);
      halos[rank].insert(halos[rank].end(), rows.begin(), rows.end());
    }
  }
  return halos;
}

Generations::Generations(const std::vector<int64_t>& lengths, std::vector<comm::Parent> parents)
    : parents_(std::move(parents)) {
  Divide(lengths, WholeDocuments(lengths), 0);
}

Generations::Generations(const comm::Layout& layout, std::vector<comm::Parent> parents, int rank)
    : parents_(std::move(parents)) {
  Divide(layout.lengths(), comm::SpansOf(layout), rank);
}

void Generations::Divide(const std::vector<int64_t>& lengths, const comm::SpansOfRanks& spans,
                         int rank) {
  for (size_t d = 0; d < parents_.size() && cut_parent_ < 0; ++d) {
    const comm::Parent parent = ParentOf(parents_, static_cast<int64_t>(d));
    if (parent.document >= 0 && parent.tokens < lengths[parent.document])
      cut_parent_ = static_cast<int64_t>(d);
  }
  const std::vector<int64_t> of = GenerationsOf(lengths, parents_);
  const int64_t last = of.empty() ? 0 : *std::max_element(of.begin(), of.end());
  std::vector<int64_t> local;
  for (const comm::Span& span : spans[rank]) local.push_back(span.tokens());
  // States are moved as if they were rows: a document's final state is row 0 of the document.
  const auto state = [](int64_t document) { return comm::Span{document, 0, 1}; };
  comm::SpansOfRanks ends_before;
  for (int64_t generation = 0; generation <= last; ++generation) {
    comm::SpansOfRanks own(spans.size()), begins(spans.size()), ends(spans.size());
    std::vector<int64_t> numbers;
    for (size_t r = 0; r < spans.size(); ++r) {
      for (size_t s = 0; s < spans[r].size(); ++s) {
        const comm::Span& span = spans[r][s];
        if (of[span.document] != generation) continue;
        own[r].push_back(span);
        if (static_cast<int>(r) == rank) numbers.push_back(static_cast<int64_t>(s));
        if (span.begin == 0 && generation > 0)
          begins[r].push_back(state(ParentOf(parents_, span.document).document));
        if (span.end == lengths[span.document]) ends[r].push_back(state(span.document));
      }
    }
    all_.push_back({std::move(own), SpanRows(local, std::move(numbers)),
                    generation == 0
                        ? nullptr
                        : std::make_shared<const comm::RowMap>(ends_before, begins, rank)});
    ends_before = std::move(ends);
  }
}

at::Tensor Generations::FirstStates(const Generation& generation, const at::Tensor& last_DHVK,
                                    const std::shared_ptr<comm::Communicator>& group) const {
  if (group != nullptr) return comm::MoveRows({{last_DHVK, generation.states, nullptr}}, group)[0];
  const comm::RowMap::Places& rows = generation.states->sent(0);
  return rows.index_R.defined() ? last_DHVK.index_select(0, rows.index_R.to(last_DHVK.device()))
                                : last_DHVK.narrow(0, rows.first, rows.rows);
}

at::Tensor Generations::Run(const DeltaInputs& inputs,
                            const std::shared_ptr<comm::Communicator>& group,
                            const Rule& rule) const {
  if (all_.size() == 1) return rule(0, inputs).out_THV;
  TORCH_CHECK(cut_parent_ < 0, "delta rule: document ", cut_parent_, " continues from token ",
              ParentOf(parents_, cut_parent_).tokens, " of its parent, document ",
              ParentOf(parents_, cut_parent_).document,
              ", expected its end: states in the middle of a document are not kept");
  std::vector<SpanRows> rows;
  std::vector<at::Tensor> outs, nothing;
  at::Tensor last_DHVK;
  for (size_t g = 0; g < all_.size(); ++g) {
    DeltaInputs own = all_[g].rows.Of(inputs);
    if (g > 0) own.initial_DHVK = FirstStates(all_[g], last_DHVK, group);
    const DeltaResult made = rule(g, own);
    last_DHVK = made.final_DHVK;
    rows.push_back(all_[g].rows);
    outs.push_back(made.out_THV);
    if (made.out_THV.size(0) == 0) nothing.push_back(made.out_THV);
  }
  // The outputs of a generation without rows on this rank are empty, but must be part of the
  // autograd graph, since the generation's backward is collective.
  nothing.insert(nothing.begin(), JoinRows(rows, outs));
  return nothing.size() == 1 ? nothing[0] : at::cat(nothing);
}

}  // namespace moonring::mixers
