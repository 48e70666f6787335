#include "objectives/documents.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "base/memory/to_device.h"
#include "comm/autograd_collectives.h"

namespace moonring::objectives {
namespace {

// For each document, the sum of the values of this rank's tokens.
at::Tensor LocalSums(const at::Tensor& values_T, const comm::Layout& layout, int rank) {
  const at::Tensor exact_T = values_T.to(at::kDouble);
  std::vector<int64_t> sizes = values_T.sizes().vec();
  sizes[0] = static_cast<int64_t>(layout.lengths().size());
  const at::Tensor zeros = at::zeros(sizes, exact_T.options());
  if (exact_T.numel() == 0) return zeros + exact_T.sum();  // zeros, but in the autograd graph
  std::vector<int64_t> document_of, tokens;
  for (const comm::Span& span : layout.spans(rank)) {
    document_of.push_back(span.document);
    tokens.push_back(span.tokens());
  }
  // Values are summed per span first, so that the order of additions is the same on every device.
  const at::Tensor of_spans = at::segment_reduce(
      exact_T, "sum", base::ToDevice(tokens, values_T.device()), {}, {}, 0, /*unsafe=*/true, 0.0);
  return zeros.index_add(0, base::ToDevice(document_of, values_T.device()), of_spans);
}

}  // namespace

at::Tensor DocumentSums(const at::Tensor& values_T, const comm::Layout& layout,
                        const std::shared_ptr<comm::Communicator>& group) {
  TORCH_CHECK(layout.ranks() == group->size(), "objectives.document_sums: a layout over ",
              layout.ranks(), " ranks, a group of ", group->size());
  TORCH_CHECK(values_T.dim() >= 1 && at::isFloatingType(values_T.scalar_type()) &&
                  values_T.size(0) == layout.local_tokens(group->rank()),
              "objectives.document_sums: values ", values_T.sizes(), " of ", values_T.scalar_type(),
              ", expected a floating type [", layout.local_tokens(group->rank()),
              ", ...], this rank's tokens");
  return comm::AllReduceSumIdentityBackward(LocalSums(values_T, layout, group->rank()), group);
}

at::Tensor DocumentTargets(const comm::Sequence& sequence) {
  at::Tensor targets = at::zeros({static_cast<int64_t>(sequence.lengths.size())}, at::kDouble);
  const at::Tensor predicted_T = sequence.targets_T.ne(comm::kIgnore);
  int64_t offset = 0;
  for (size_t d = 0; d < sequence.lengths.size(); ++d) {
    targets.data_ptr<double>()[d] =
        predicted_T.narrow(0, offset, sequence.lengths[d]).sum().item<double>();
    offset += sequence.lengths[d];
  }
  return targets;
}

at::Tensor Desensitized(const comm::Sequence& sequence, double alpha) {
  const std::vector<int64_t> own = comm::OwnDocuments(sequence);
  TORCH_CHECK(own.size() % 2 == 0, "objectives.desensitized: ", own.size(),
              " documents, expected pairs");
  TORCH_CHECK(alpha >= 0.0 && alpha <= 1.0, "objectives.desensitized: ld_alpha is ", alpha,
              ", expected 0 to 1");
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : sequence.lengths) offsets.push_back(offsets.back() + length);
  const at::Tensor targets = DocumentTargets(sequence);
  const double* of_document = targets.const_data_ptr<double>();
  at::Tensor weights_T = at::ones(sequence.targets_T.sizes(), at::kDouble);
  for (size_t i = 0; i < own.size(); ++i) {
    const int64_t d = own[i];
    const double shared = std::min(of_document[d], of_document[own[i ^ 1]]);
    const at::Tensor predicted =
        sequence.targets_T.narrow(0, offsets[d], sequence.lengths[d]).ne(comm::kIgnore);
    weights_T.narrow(0, offsets[d], sequence.lengths[d])
        .masked_fill_(predicted.logical_and(predicted.cumsum(0).gt(shared)), alpha);
  }
  return weights_T;
}

}  // namespace moonring::objectives
