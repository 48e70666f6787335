#include "objectives/log_prob.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/threads/small_work.h"
#include "base/trace/recorder.h"
#include "comm/sequence.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/target_rows.h"

namespace moonring::objectives {
namespace {

// Kinds of spans in a trace, for the forward and the backward of the head and the log-probs.
constexpr base::SpanKind kForward = {
    .name = "head forward", .category = "head", .numbers = {"rows", "vocabulary"}};
constexpr base::SpanKind kBackward = {
    .name = "head backward", .category = "head", .numbers = {"rows", "vocabulary"}};

ProjectionOptions ProjectionOf(const LogProbOptions& options) {
  HeadOptions head = options.head;
  head.scale /= options.temperature;
  head.softcap /= options.temperature;
  return {.head = std::move(head),
          .matmul_dtype = options.matmul_dtype,
          .chunk_bytes = options.chunk_bytes,
          .chunk_rows = options.chunk_rows};
}

// A call's chunks of rows, with the scores of a chunk in the dtype that the kernel or the operators
// need.
class Chunks {
 public:
  Chunks(const base::Parameter& head, const LogProbOptions& options, const at::Tensor& hidden_TD,
         int64_t rows)
      : fused_(RowsAreFused(hidden_TD)),
        // fp16 is excluded, since the gradients of unlikely ids would underflow to 0.
        as_made_(fused_ && options.matmul_dtype != at::kHalf),
        projection_(head, ProjectionOf(options), hidden_TD),
        rows_(ChunkRows(rows, projection_.row_bytes(as_made_), projection_.chunk_bytes(as_made_))) {
  }

  HeadProjection& projection() { return projection_; }
  int64_t rows() const { return rows_; }  // per chunk
  bool fused() const { return fused_; }
  at::Tensor Scores(const at::Tensor& hidden_RD) {
    return as_made_ ? projection_.ScoresAsMade(hidden_RD) : projection_.Scores(hidden_RD);
  }

 private:
  const bool fused_, as_made_;
  HeadProjection projection_;
  const int64_t rows_;
};

// State that forward and backward share, in addition to the tensors that autograd saves.
struct Call {
  const std::shared_ptr<base::Parameter> head;
  const LogProbOptions options;
  const Statistics wanted;
  const bool backward_follows;
  TokenStatistics statistics;  // second result of the forward
  // Saved for the backward if all rows are one chunk: exp(z - peak), where peak is the row's
  // greatest z, and its row sums; or the scores, if total_N is undefined. The first backward
  // consumes these tensors; a further one (retain_graph) recomputes the scores.
  at::Tensor kept_NV, total_N;
};

// The indices of rows that have a target, and their targets. They are determined on the host, since
// reading their number from a device would require a synchronization.
struct Targets {
  at::Tensor rows_N, targets_N;  // on the device of the hidden states

  Targets(const at::Tensor& host_T, const c10::Device& device) {
    const at::Tensor rows = host_T.ne(comm::kIgnore).nonzero().squeeze(1);
    const int64_t count = rows.size(0);
    const at::Tensor both = base::HostTensorFor(device, {2, count}, at::kLong);
    both[0].copy_(rows);
    both[1].copy_(host_T.index_select(0, rows));
    const at::Tensor there = base::ToDevice(both, device);
    rows_N = there[0];
    targets_N = there[1];
  }
};

at::Tensor Forward(Call& call, const at::Tensor& hidden_TD, const at::Tensor& host_targets_T,
                   base::Tensors* saved) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const Targets targets(host_targets_T, hidden_TD.device());
  const at::Tensor &rows_N = targets.rows_N, &targets_N = targets.targets_N;
  const int64_t rows = rows_N.size(0);
  base::TraceSpan span(kForward, {rows, call.head->shape()[0]});
  span.OnDevice(hidden_TD.device());
  const base::SmallWorkScope small(rows, call.head->numel());
  Chunks chunks(*call.head, call.options, hidden_TD, rows);
  HeadProjection& projection = chunks.projection();
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  const Statistics& wanted = call.wanted;
  const double smoothing = call.options.label_smoothing;
  RowSums sums{.picked_RK = at::empty({rows, 1}, like),
               .logsumexp_R = at::empty({rows}, like),
               .total_R = at::empty({rows}, like)};
  if (wanted.mean_logit || smoothing != 0.0) sums.mean_R = at::empty({rows}, like);
  if (wanted.greedy) sums.greedy_R = at::empty({rows}, like.dtype(at::kLong));
  if (wanted.top_entropy) sums.top_entropy_R = at::empty({rows}, like);
  if (wanted.entropy) sums.entropy_R = at::empty({rows}, like);
  for (int64_t begin = 0; begin < rows; begin += chunks.rows()) {
    const int64_t count = std::min(chunks.rows(), rows - begin);
    at::Tensor scores_RV = chunks.Scores(GatherRows(hidden_TD, rows_N, begin, count));
    ReduceRows(scores_RV, projection.softcap(), targets_N.narrow(0, begin, count).unsqueeze(1),
               Rows(sums, begin, count));
    if (count < rows || !call.backward_follows) continue;
    if (chunks.fused()) {
      call.kept_NV = scores_RV;
    } else if (projection.softcap() == 0.0) {
      call.kept_NV = scores_RV;
      call.total_N = sums.total_R;
    }
  }
  *saved = {hidden_TD, rows_N, targets_N, sums.logsumexp_R};
  const auto spread = [&](const at::Tensor& rows_of, double otherwise) {
    return at::full({host_targets_T.size(0)}, otherwise, rows_of.options())
        .index_copy_(0, rows_N, rows_of);
  };
  if (wanted.mean_logit) call.statistics.mean_logit_T = spread(sums.mean_R, 0.0);
  if (wanted.greedy) call.statistics.greedy_T = spread(sums.greedy_R, -1.0);
  if (wanted.top_entropy) call.statistics.top_entropy_T = spread(sums.top_entropy_R, 0.0);
  if (wanted.entropy) call.statistics.entropy_T = spread(sums.entropy_R, 0.0);
  at::Tensor expected_R = sums.picked_RK.squeeze(1);
  if (smoothing != 0.0) expected_R = expected_R.mul(1.0 - smoothing).add_(sums.mean_R, smoothing);
  return spread(expected_R - sums.logsumexp_R, 0.0);
}

base::Tensors Backward(Call& call, const base::BackwardCall& backward) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const base::Tensors& saved = backward.saved;
  const at::Tensor &hidden_TD = saved[0], &rows_N = saved[1], &targets_N = saved[2],
                   &logsumexp_N = saved[3];
  at::Tensor kept_NV = std::exchange(call.kept_NV, at::Tensor());
  const double smoothing = call.options.label_smoothing;
  const int64_t rows = rows_N.size(0);
  base::TraceSpan span(kBackward, {rows, call.head->shape()[0]});
  span.OnDevice(hidden_TD.device());
  const base::SmallWorkScope small(rows, call.head->numel());

  Chunks chunks(*call.head, call.options, hidden_TD, rows);
  HeadProjection& projection = chunks.projection();
  // The factor is negative, since the chunks' gradients are those of -log p.
  at::Tensor factor_N = backward.gradients[0]
                            .to(projection.dtype())
                            .index_select(0, rows_N)
                            .mul_(-projection.scale());
  HeadGradients gradients(projection, *call.head, call.options.head.bias_V, hidden_TD,
                          /*hidden_wanted=*/backward.wanted[0], rows_N, std::move(factor_N));
  for (int64_t begin = 0; begin < rows; begin += chunks.rows()) {
    const int64_t count = std::min(chunks.rows(), rows - begin);
    const at::Tensor hidden_RD = GatherRows(hidden_TD, rows_N, begin, count);
    const at::Tensor targets_R = targets_N.narrow(0, begin, count);
    at::Tensor gradient_RV = kept_NV.defined() ? kept_NV : chunks.Scores(hidden_RD);
    if (kept_NV.defined() && call.total_N.defined()) {
      KeptGradient(gradient_RV, smoothing, targets_R, call.total_N);
    } else {
      ScoreGradient(gradient_RV, projection.softcap(), smoothing, targets_R,
                    logsumexp_N.narrow(0, begin, count));
    }
    gradients.Add(begin, hidden_RD, gradient_RV);
  }
  return {gradients.Finish()};
}

void CheckHead(const at::Tensor& hidden, const base::Parameter& head,
               const LogProbOptions& options) {
  TORCH_CHECK_VALUE(std::isfinite(options.temperature) && options.temperature > 0.0,
                    "objectives.log_prob: temperature is ", options.temperature,
                    ", expected more than 0");
  CheckProjection("objectives.log_prob", hidden, head, ProjectionOf(options));
  TORCH_CHECK(options.label_smoothing >= 0.0 && options.label_smoothing < 1.0,
              "objectives.log_prob: label_smoothing is ", options.label_smoothing,
              ", expected 0 to less than 1");
}

void CheckTargets(const at::Tensor& hidden, const at::Tensor& targets, int64_t vocab) {
  TORCH_CHECK(
      targets.dim() == 1 && targets.size(0) == hidden.size(0) && targets.scalar_type() == at::kLong,
      "objectives.log_prob: targets ", targets.sizes(), " of ", targets.scalar_type(),
      ", expected int64 [", hidden.size(0), "]");
  if (targets.numel() == 0) return;
  const at::Tensor real = targets.masked_select(targets.ne(comm::kIgnore));
  if (real.numel() == 0) return;
  const int64_t least = real.min().item<int64_t>(), most = real.max().item<int64_t>();
  TORCH_CHECK(least >= 0 && most < vocab, "objectives.log_prob: a target is ",
              least < 0 ? least : most, ", the vocabulary has ", vocab, " ids");
}

}  // namespace

LogProbs TokenLogProb(const at::Tensor& hidden_TD, const std::shared_ptr<base::Parameter>& head_VD,
                      const at::Tensor& targets_T, const LogProbOptions& options,
                      const Statistics& wanted) {
  TORCH_CHECK(head_VD != nullptr, "objectives.log_prob: no head");
  CheckHead(hidden_TD, *head_VD, options);
  const at::Tensor host_targets_T = targets_T.to(at::kCPU);
  CheckTargets(hidden_TD, host_targets_T, head_VD->shape()[0]);
  const auto [anchor, backward_follows] = RecordHead(hidden_TD, *head_VD, options.head);
  const auto call =
      std::make_shared<Call>(Call{head_VD, options, wanted, backward_follows, {}, {}, {}});
  at::Tensor log_prob_T = base::ApplyToOne(
      {.name = "objectives.log_prob",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         return {Forward(*call, hidden_TD, host_targets_T, saved)};
       },
       .backward = [call](base::BackwardCall& backward) { return Backward(*call, backward); }},
      {hidden_TD, anchor});
  return {std::move(log_prob_T), std::exchange(call->statistics, {})};
}

at::Tensor TokenLogProb(const at::Tensor& hidden_TD,
                        const std::shared_ptr<base::Parameter>& head_VD,
                        const at::Tensor& targets_T, const LogProbOptions& options) {
  return TokenLogProb(hidden_TD, head_VD, targets_T, options, Statistics()).log_prob_T;
}

RowLogits Logits(const at::Tensor& hidden_ND, const base::Parameter& head_VD, int64_t first_ids,
                 const LogProbOptions& options) {
  CheckHead(hidden_ND, head_VD, options);
  const int64_t vocab = head_VD.shape()[0];
  TORCH_CHECK(first_ids >= 0 && first_ids <= vocab, "objectives.log_prob: ", first_ids,
              " ids asked for, the vocabulary has ", vocab);
  at::NoGradGuard no_grad;
  const int64_t rows = hidden_ND.size(0);
  HeadProjection projection(head_VD, ProjectionOf(options), hidden_ND);
  const int64_t chunk_rows = ChunkRows(rows, projection.row_bytes(), projection.chunk_bytes());
  const auto like = at::TensorOptions().device(hidden_ND.device()).dtype(projection.dtype());
  const RowSums sums{.picked_RK = at::empty({rows, first_ids}, like),
                     .logsumexp_R = at::empty({rows}, like),
                     .total_R = at::empty({rows}, like)};
  const at::Tensor ids_RK =
      at::arange(first_ids, like.dtype(at::kLong)).expand({chunk_rows, first_ids});
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    ReduceRows(projection.Scores(hidden_ND.narrow(0, begin, count)), projection.softcap(),
               ids_RK.narrow(0, 0, count), Rows(sums, begin, count));
  }
  return {sums.picked_RK, sums.logsumexp_R};
}

}  // namespace moonring::objectives
