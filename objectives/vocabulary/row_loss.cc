#include "objectives/vocabulary/row_loss.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/threads/small_work.h"
#include "comm/sequence.h"
#include "objectives/vocabulary/row_blocks.h"

namespace moonring::objectives {
namespace {

// State that forward and backward share, in addition to the tensors that autograd saves.
struct Call {
  const RowLoss loss;
  const std::shared_ptr<base::Parameter> head;
  const ProjectionOptions options;
  const bool backward_follows;
  // dL/ds of all rows, saved for the backward if all rows are one chunk. The first backward
  // consumes this tensor; a further one (retain_graph) recomputes it.
  at::Tensor kept_NV;
};

int64_t RowsOfChunk(const Call& call, const RowPass& pass, const HeadProjection& projection,
                    const at::Tensor& hidden, int64_t rows) {
  int64_t row_bytes = projection.row_bytes() + pass.row_bytes();
  if (!hidden.is_cpu()) {
    row_bytes += pass.intermediates() * projection.vocabulary() *
                 static_cast<int64_t>(c10::elementSize(projection.dtype()));
  }
  return ChunkRows(rows, row_bytes, projection.chunk_bytes());
}

// Computes one number per row from a chunk's scores s. With `differentiate`, the scores are
// overwritten by the gradient of these numbers with respect to s.
void Evaluate(const RowPass& pass, at::Tensor scores_RV, double softcap, bool differentiate,
              at::Tensor values_R) {
  ForEachBlock(scores_RV, [&](int64_t begin, int64_t end) {
    at::Tensor z = scores_RV.slice(0, begin, end);
    at::Tensor slope;  // dz/ds = 1 - tanh(s / softcap)^2
    if (softcap != 0.0) {
      z.div_(softcap).tanh_();
      if (differentiate) slope = z.square().neg_().add_(1.0);
      z.mul_(softcap);
    }
    values_R.slice(0, begin, end).copy_(pass.Block(z, begin, differentiate));
    if (slope.defined()) z.mul_(slope);
  });
}

at::Tensor Forward(Call& call, const at::Tensor& hidden_TD, const at::Tensor& rows_N,
                   base::Tensors* saved) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const int64_t rows = rows_N.size(0);
  const base::SmallWorkScope small(rows, call.head->numel());
  HeadProjection projection(*call.head, call.options, hidden_TD, rows_N);
  const auto pass = call.loss.begin(rows_N, projection.dtype());
  const int64_t chunk_rows = RowsOfChunk(call, *pass, projection, hidden_TD, rows);
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  const at::Tensor values_N = at::empty({rows}, like);
  const bool keeps = chunk_rows >= rows && call.backward_follows;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    at::Tensor scores_RV = projection.Scores(GatherRows(hidden_TD, rows_N, begin, count), begin);
    pass->BeginChunk(begin, count);
    Evaluate(*pass, scores_RV, projection.softcap(), keeps, values_N.narrow(0, begin, count));
    if (keeps) call.kept_NV = scores_RV;
  }
  *saved = {hidden_TD, rows_N};
  saved->insert(saved->end(), call.loss.tensors.begin(), call.loss.tensors.end());
  return at::zeros({hidden_TD.size(0)}, like).index_copy_(0, rows_N, values_N);
}

base::Tensors Backward(Call& call, const base::BackwardCall& backward) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const at::Tensor &hidden_TD = backward.saved[0], &rows_N = backward.saved[1];
  const int64_t rows = rows_N.size(0);
  const base::SmallWorkScope small(rows, call.head->numel());
  HeadProjection projection(*call.head, call.options, hidden_TD, rows_N);
  const auto pass = call.loss.begin(rows_N, projection.dtype());
  const int64_t chunk_rows = RowsOfChunk(call, *pass, projection, hidden_TD, rows);
  const at::Tensor kept_NV = std::exchange(call.kept_NV, at::Tensor());
  at::Tensor factor_N =
      backward.gradients[0].to(projection.dtype()).index_select(0, rows_N).mul_(projection.scale());
  HeadGradients gradients(projection, *call.head, call.options.head, hidden_TD,
                          /*hidden_wanted=*/backward.wanted[0], rows_N, std::move(factor_N));
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    const at::Tensor hidden_RD = GatherRows(hidden_TD, rows_N, begin, count);
    at::Tensor gradient_RV = kept_NV;
    if (!kept_NV.defined()) {
      gradient_RV = projection.Scores(hidden_RD, begin);
      pass->BeginChunk(begin, count);
      Evaluate(*pass, gradient_RV, projection.softcap(), /*differentiate=*/true,
               at::empty({count}, like));
    }
    gradients.Add(begin, hidden_RD, gradient_RV);
  }
  return {gradients.Finish()};
}

}  // namespace

at::Tensor LossOfRows(RowLoss loss, const at::Tensor& hidden_TD,
                      const std::shared_ptr<base::Parameter>& head_VD, const at::Tensor& targets_T,
                      const ProjectionOptions& options) {
  TORCH_CHECK_VALUE(head_VD != nullptr, loss.name, ": no head");
  CheckProjection(loss.name, hidden_TD, *head_VD, options);
  const at::Tensor rows_N =
      RowsWithTarget(loss.name, targets_T, hidden_TD.size(0), hidden_TD.device());
  const auto [anchor, backward_follows] = RecordHead(hidden_TD, *head_VD, options.head);
  const char* name = loss.name;
  const auto call =
      std::make_shared<Call>(Call{std::move(loss), head_VD, options, backward_follows, {}});
  return base::ApplyToOne(
      {.name = name,
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         return {Forward(*call, hidden_TD, rows_N, saved)};
       },
       .backward = [call](base::BackwardCall& backward) { return Backward(*call, backward); }},
      {hidden_TD, anchor});
}

at::Tensor RowsWithTarget(const char* caller, const at::Tensor& targets_T, int64_t rows,
                          c10::Device device) {
  TORCH_CHECK_VALUE(
      targets_T.dim() == 1 && targets_T.size(0) == rows && targets_T.scalar_type() == at::kLong,
      caller, ": targets ", targets_T.sizes(), " of ", targets_T.scalar_type(),
      ", expected int64 [", rows, "]");
  const at::Tensor host_N = targets_T.to(at::kCPU).ne(comm::kIgnore).nonzero().squeeze(1);
  const at::Tensor to_send = base::HostTensorFor(device, host_N.sizes(), at::kLong);
  to_send.copy_(host_N);
  return base::ToDevice(to_send, device);
}

void Cap(at::Tensor scores_RV, double softcap) {
  if (softcap != 0.0) scores_RV.div_(softcap).tanh_().mul_(softcap);
}

}  // namespace moonring::objectives
