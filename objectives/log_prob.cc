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
  // candidates: the number of targets of a row; the kernel takes one.
  Chunks(const base::Parameter& head, const LogProbOptions& options, const at::Tensor& hidden_TD,
         const at::Tensor& rows_N, int64_t candidates)
      : fused_(candidates == 1 && RowsAreFused(hidden_TD)),
        // fp16 is excluded, since the gradients of unlikely ids would underflow to 0.
        as_made_(fused_ && options.matmul_dtype != at::kHalf),
        projection_(head, ProjectionOf(options), hidden_TD, rows_N),
        rows_(ChunkRows(rows_N.size(0), projection_.row_bytes(as_made_),
                        projection_.chunk_bytes(as_made_))) {}

  HeadProjection& projection() { return projection_; }
  int64_t rows() const { return rows_; }  // per chunk
  bool fused() const { return fused_; }
  at::Tensor Scores(const at::Tensor& hidden_RD, int64_t begin) {
    return as_made_ ? projection_.ScoresAsMade(hidden_RD, begin)
                    : projection_.Scores(hidden_RD, begin);
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
  const bool one_target;       // the result is [T], not [T, K]
  TokenStatistics statistics;  // second result of the forward
  // Saved for the backward if all rows are one chunk: exp(z - peak), where peak is the row's
  // greatest z, and its row sums; or the scores, if total_N is undefined. The first backward
  // consumes these tensors; a further one (retain_graph) recomputes the scores.
  at::Tensor kept_NV, total_N;
};

// The indices of rows that have a target, and their targets. They are determined on the host, since
// reading their number from a device would require a synchronization.
struct Targets {
  at::Tensor rows_N, targets_NK;  // on the device of the hidden states

  Targets(const at::Tensor& host_TK, const c10::Device& device) {
    const at::Tensor rows = host_TK.ne(comm::kIgnore).any(1).nonzero().squeeze(1);
    const int64_t count = rows.size(0), candidates = host_TK.size(1);
    const at::Tensor both = base::HostTensorFor(device, {1 + candidates, count}, at::kLong);
    both[0].copy_(rows);
    both.narrow(0, 1, candidates).copy_(host_TK.index_select(0, rows).t());
    const at::Tensor there = base::ToDevice(both, device);
    rows_N = there[0];
    targets_NK = there.narrow(0, 1, candidates).t();
  }
};

at::Tensor Forward(Call& call, const at::Tensor& hidden_TD, const at::Tensor& host_targets_TK,
                   base::Tensors* saved) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const Targets targets(host_targets_TK, hidden_TD.device());
  const at::Tensor &rows_N = targets.rows_N, &targets_NK = targets.targets_NK;
  const int64_t rows = rows_N.size(0), candidates = targets_NK.size(1);
  base::TraceSpan span(kForward, {rows, call.head->shape()[0]});
  span.OnDevice(hidden_TD.device());
  const base::SmallWorkScope small(rows, call.head->numel());
  Chunks chunks(*call.head, call.options, hidden_TD, rows_N, candidates);
  HeadProjection& projection = chunks.projection();
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  const Statistics& wanted = call.wanted;
  const double smoothing = call.options.label_smoothing;
  // An absent candidate of a row with others is replaced by id 0, and its result by 0.
  const bool some_absent = candidates > 1 && rows > 0;
  const at::Tensor absent_NK = some_absent ? targets_NK.eq(comm::kIgnore) : at::Tensor(),
                   ids_NK = some_absent ? targets_NK.masked_fill(absent_NK, 0) : targets_NK;
  RowSums sums{.picked_RK = at::empty({rows, candidates}, like),
               .logsumexp_R = at::empty({rows}, like),
               .total_R = at::empty({rows}, like)};
  if (wanted.mean_logit || smoothing != 0.0) sums.mean_R = at::empty({rows}, like);
  if (wanted.greedy) sums.greedy_R = at::empty({rows}, like.dtype(at::kLong));
  if (wanted.top_entropy) sums.top_entropy_R = at::empty({rows}, like);
  if (wanted.entropy) sums.entropy_R = at::empty({rows}, like);
  for (int64_t begin = 0; begin < rows; begin += chunks.rows()) {
    const int64_t count = std::min(chunks.rows(), rows - begin);
    at::Tensor scores_RV = chunks.Scores(GatherRows(hidden_TD, rows_N, begin, count), begin);
    ReduceRows(scores_RV, projection.softcap(), ids_NK.narrow(0, begin, count),
               Rows(sums, begin, count));
    if (count < rows || !call.backward_follows) continue;
    if (chunks.fused()) {
      call.kept_NV = scores_RV;
    } else if (projection.softcap() == 0.0) {
      call.kept_NV = scores_RV;
      call.total_N = sums.total_R;
    }
  }
  *saved = {hidden_TD, rows_N, ids_NK, absent_NK, sums.logsumexp_R};
  const auto spread = [&](const at::Tensor& rows_of, double otherwise) {
    std::vector<int64_t> shape = rows_of.sizes().vec();
    shape[0] = host_targets_TK.size(0);
    return at::full(shape, otherwise, rows_of.options()).index_copy_(0, rows_N, rows_of);
  };
  if (wanted.mean_logit) call.statistics.mean_logit_T = spread(sums.mean_R, 0.0);
  if (wanted.greedy) call.statistics.greedy_T = spread(sums.greedy_R, -1.0);
  if (wanted.top_entropy) call.statistics.top_entropy_T = spread(sums.top_entropy_R, 0.0);
  if (wanted.entropy) call.statistics.entropy_T = spread(sums.entropy_R, 0.0);
  at::Tensor expected_RK = sums.picked_RK;
  if (smoothing != 0.0) {
    expected_RK = expected_RK.mul(1.0 - smoothing).add_(sums.mean_R.unsqueeze(1), smoothing);
  }
  at::Tensor log_prob_RK = expected_RK - sums.logsumexp_R.unsqueeze(1);
  if (absent_NK.defined()) log_prob_RK.masked_fill_(absent_NK, 0.0);
  return spread(call.one_target ? log_prob_RK.squeeze(1) : log_prob_RK, 0.0);
}

base::Tensors Backward(Call& call, const base::BackwardCall& backward) {
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const base::Tensors& saved = backward.saved;
  const at::Tensor &hidden_TD = saved[0], &rows_N = saved[1], &ids_NK = saved[2],
                   &absent_NK = saved[3], &logsumexp_N = saved[4];
  at::Tensor kept_NV = std::exchange(call.kept_NV, at::Tensor());
  const double smoothing = call.options.label_smoothing;
  const int64_t rows = rows_N.size(0);
  base::TraceSpan span(kBackward, {rows, call.head->shape()[0]});
  span.OnDevice(hidden_TD.device());
  const base::SmallWorkScope small(rows, call.head->numel());

  const int64_t candidates = ids_NK.size(1);
  Chunks chunks(*call.head, call.options, hidden_TD, rows_N, candidates);
  HeadProjection& projection = chunks.projection();
  at::Tensor upstream_NK =
      backward.gradients[0].to(projection.dtype()).index_select(0, rows_N).view({rows, candidates});
  if (absent_NK.defined()) upstream_NK.masked_fill_(absent_NK, 0.0);
  // The factor is negative, since the chunks' gradients are those of -log p. With several
  // candidates it is the same for all rows, and the incoming gradient is in the chunks' gradients.
  at::Tensor factor_N = candidates == 1
                            ? upstream_NK.squeeze(1).mul_(-projection.scale())
                            : at::full({rows}, -projection.scale(), upstream_NK.options());
  HeadGradients gradients(projection, *call.head, call.options.head, hidden_TD,
                          /*hidden_wanted=*/backward.wanted[0], rows_N, std::move(factor_N));
  for (int64_t begin = 0; begin < rows; begin += chunks.rows()) {
    const int64_t count = std::min(chunks.rows(), rows - begin);
    const at::Tensor hidden_RD = GatherRows(hidden_TD, rows_N, begin, count);
    const RowTargets targets{ids_NK.narrow(0, begin, count),
                             candidates == 1 ? at::Tensor() : upstream_NK.narrow(0, begin, count)};
    at::Tensor gradient_RV = kept_NV.defined() ? kept_NV : chunks.Scores(hidden_RD, begin);
    if (kept_NV.defined() && call.total_N.defined()) {
      KeptGradient(gradient_RV, smoothing, targets, call.total_N);
    } else {
      ScoreGradient(gradient_RV, projection.softcap(), smoothing, targets,
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

// Returns the targets on the host, as [T, K], with kIgnore where there is none.
at::Tensor CheckedTargets(const at::Tensor& hidden, const at::Tensor& targets, int64_t vocab) {
  TORCH_CHECK((targets.dim() == 1 || targets.dim() == 2) && targets.size(0) == hidden.size(0) &&
                  targets.scalar_type() == at::kLong,
              "objectives.log_prob: targets ", targets.sizes(), " of ", targets.scalar_type(),
              ", expected int64 [", hidden.size(0), "], or [", hidden.size(0),
              ", K] for several candidates");
  TORCH_CHECK(targets.dim() == 1 || targets.size(1) > 0, "objectives.log_prob: targets ",
              targets.sizes(), ", expected one candidate or more");
  at::Tensor host_TK = targets.to(at::kCPU);
  if (targets.dim() == 1) {
    host_TK = host_TK.unsqueeze(1);
  } else {
    host_TK = host_TK.masked_fill(host_TK.eq(kNoCandidate), comm::kIgnore);
  }
  const at::Tensor real = host_TK.masked_select(host_TK.ne(comm::kIgnore));
  if (real.numel() == 0) return host_TK;
  const int64_t least = real.min().item<int64_t>(), most = real.max().item<int64_t>();
  TORCH_CHECK(least >= 0 && most < vocab, "objectives.log_prob: a target is ",
              least < 0 ? least : most, ", the vocabulary has ", vocab, " ids");
  return host_TK;
}

}  // namespace

LogProbs TokenLogProb(const at::Tensor& hidden_TD, const std::shared_ptr<base::Parameter>& head_VD,
                      const at::Tensor& targets_T, const LogProbOptions& options,
                      const Statistics& wanted) {
  TORCH_CHECK(head_VD != nullptr, "objectives.log_prob: no head");
  CheckHead(hidden_TD, *head_VD, options);
  const at::Tensor host_TK = CheckedTargets(hidden_TD, targets_T, head_VD->shape()[0]);
  const auto [anchor, backward_follows] = RecordHead(hidden_TD, *head_VD, options.head);
  const auto call = std::make_shared<Call>(
      Call{head_VD, options, wanted, backward_follows, targets_T.dim() == 1, {}, {}, {}});
  at::Tensor log_prob_T = base::ApplyToOne(
      {.name = "objectives.log_prob",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         return {Forward(*call, hidden_TD, host_TK, saved)};
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
    ReduceRows(projection.Scores(hidden_ND.narrow(0, begin, count), begin), projection.softcap(),
               ids_RK.narrow(0, 0, count), Rows(sums, begin, count));
  }
  return {sums.picked_RK, sums.logsumexp_R};
}

}  // namespace moonring::objectives
