#include "objectives/vocabulary/top_log_probs.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "base/memory/memory_account.h"
#include "base/threads/small_work.h"
#include "objectives/vocabulary/row_blocks.h"
#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {

TopLogProbs TokenTopLogProbs(const at::Tensor& hidden_TD, const base::Parameter& head_VD,
                             const at::Tensor& targets_T, int64_t top, double temperature,
                             const ProjectionOptions& options) {
  constexpr char kName[] = "objectives.top_log_probs";
  CheckProjection(kName, hidden_TD, head_VD, options);
  TORCH_CHECK_VALUE(temperature > 0.0, kName, ": temperature is ", temperature,
                    ", expected more than 0");
  const at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kLogits);
  const int64_t all = hidden_TD.size(0);
  const at::Tensor rows_N = RowsWithTarget(kName, targets_T, all, hidden_TD.device());
  const int64_t rows = rows_N.size(0);
  const base::SmallWorkScope small(rows, head_VD.numel());
  HeadProjection projection(head_VD, options, hidden_TD, rows_N);
  TORCH_CHECK_VALUE(top > 0 && top <= projection.vocabulary(), kName, ": ", top,
                    " ids of each row, expected 1 to the vocabulary's ", projection.vocabulary());
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  const at::Tensor ids_NK = at::empty({rows, top}, like.dtype(at::kLong)),
                   log_probs_NK = at::empty({rows, top}, like);
  // On a GPU the log-probs of a chunk and the working memory of topk are needed in addition to the
  // chunk's logits.
  const int64_t row_bytes = projection.row_bytes() * (hidden_TD.is_cpu() ? 1 : 4);
  const int64_t chunk_rows = ChunkRows(rows, row_bytes, projection.chunk_bytes());
  for (int64_t first = 0; first < rows; first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - first);
    at::Tensor scores_RV = projection.Scores(GatherRows(hidden_TD, rows_N, first, count), first);
    ForEachBlock(scores_RV, [&](int64_t begin, int64_t end) {
      at::Tensor z_RV = scores_RV.slice(0, begin, end);
      Cap(z_RV, projection.softcap());
      const auto found = at::log_softmax(z_RV.div_(temperature), 1).topk(top, 1);
      log_probs_NK.narrow(0, first + begin, end - begin).copy_(std::get<0>(found));
      ids_NK.narrow(0, first + begin, end - begin).copy_(std::get<1>(found));
    });
  }
  const auto spread = [&](const at::Tensor& of_rows, double otherwise) {
    return at::full({all, top}, otherwise, of_rows.options()).index_copy_(0, rows_N, of_rows);
  };
  return {spread(ids_NK, -1.0), spread(log_probs_NK, -std::numeric_limits<double>::infinity())};
}

}  // namespace moonring::objectives
