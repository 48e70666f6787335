#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ops/empty_like.h>

#include "kernels/delta_scores_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

// Checks that a tensor is contiguous fp32 [N, H, rows, columns], with the N and H of `like`.
void CheckDeltaScores(const char* what, const at::Tensor& tensor, const at::Tensor& like,
                      int64_t rows, int64_t columns) {
  const std::array<int64_t, 4> wanted = {like.size(0), like.size(1), rows, columns};
  TORCH_CHECK(tensor.sizes() == at::IntArrayRef(wanted) && tensor.is_contiguous() &&
                  tensor.scalar_type() == at::kFloat,
              "delta_scores: ", what, " ", tensor.sizes(), " of ", tensor.scalar_type(),
              " with strides ", tensor.strides(), ", expected fp32 ", at::IntArrayRef(wanted),
              " without gaps");
}

const float* Read(const at::Tensor& tensor) { return tensor.const_data_ptr<float>(); }

std::tuple<at::Tensor, at::Tensor> DeltaScores(std::optional<at::Tensor> query, at::Tensor key,
                                               const at::Tensor& g, const at::Tensor& beta) {
  TORCH_CHECK(key.dim() == 4, "delta_scores: key ", key.sizes(), ", expected [N, H, 64, 64]");
  CheckDeltaScores("key", key, key, 64, 64);
  if (query.has_value()) CheckDeltaScores("query", *query, key, 64, 64);
  CheckDeltaScores("g", g, key, 64, 1);
  CheckDeltaScores("beta", beta, key, 64, 1);
  const at::Tensor inverse = at::empty_like(key), scaled = at::empty_like(key);
  const int64_t blocks = key.size(0) * key.size(1);
  if (blocks > 0)
    LaunchDeltaScores({.blocks = blocks,
                       .query = query.has_value() ? FloatsOf(*query) : nullptr,
                       .key = FloatsOf(key),
                       .g = Read(g),
                       .beta = Read(beta),
                       .inverse = FloatsOf(inverse),
                       .scaled = FloatsOf(scaled)},
                      StreamOf(key));
  return {inverse, scaled};
}

std::tuple<at::Tensor, at::Tensor> DeltaScoresBackward(at::Tensor p, at::Tensor r,
                                                       const at::Tensor& query,
                                                       const at::Tensor& key, const at::Tensor& g,
                                                       const at::Tensor& beta) {
  TORCH_CHECK(key.dim() == 4, "delta_scores: key ", key.sizes(), ", expected [N, H, 64, 64]");
  CheckDeltaScores("p", p, key, 64, 64);
  CheckDeltaScores("r", r, key, 64, 64);
  CheckDeltaScores("query", query, key, 64, 64);
  CheckDeltaScores("key", key, key, 64, 64);
  CheckDeltaScores("g", g, key, 64, 1);
  CheckDeltaScores("beta", beta, key, 64, 1);
  const at::Tensor dbeta = at::empty_like(beta), dg = at::empty_like(g);
  const int64_t blocks = key.size(0) * key.size(1);
  if (blocks > 0)
    LaunchDeltaScoresBackward({.blocks = blocks,
                               .p = FloatsOf(p),
                               .r = FloatsOf(r),
                               .query = Read(query),
                               .key = Read(key),
                               .g = Read(g),
                               .beta = Read(beta),
                               .dbeta = FloatsOf(dbeta),
                               .dg = FloatsOf(dg)},
                              StreamOf(key));
  return {dbeta, dg};
}

void DeltaGradients(at::Tensor dq, at::Tensor dk, at::Tensor dr, at::Tensor dbeta, at::Tensor dg,
                    const at::Tensor& d_start_q, const at::Tensor& d_start_k,
                    const at::Tensor& d_end_k, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& unscaled, const at::Tensor& states,
                    const at::Tensor& d_states, const at::Tensor& beta,
                    const at::Tensor& from_start, const at::Tensor& to_end) {
  TORCH_CHECK(k.dim() == 4 && dr.dim() == 4, "delta_gradients: k ", k.sizes(), " and dr ",
              dr.sizes(), ", expected [N, H, 64, d]");
  const int64_t keys = k.size(3), width = dr.size(3);
  const std::array<std::pair<const char*, const at::Tensor*>, 6> rows = {{{"dq", &dq},
                                                                          {"dk", &dk},
                                                                          {"d_start_q", &d_start_q},
                                                                          {"d_start_k", &d_start_k},
                                                                          {"d_end_k", &d_end_k},
                                                                          {"q", &q}}};
  for (const auto& [what, tensor] : rows) CheckDeltaScores(what, *tensor, k, 64, keys);
  CheckDeltaScores("k", k, k, 64, keys);
  CheckDeltaScores("dr", dr, k, 64, width);
  CheckDeltaScores("unscaled", unscaled, k, 64, width);
  CheckDeltaScores("states", states, k, width, keys);
  CheckDeltaScores("d_states", d_states, k, width, keys);
  CheckDeltaScores("dbeta", dbeta, k, 64, 1);
  CheckDeltaScores("dg", dg, k, 64, 1);
  CheckDeltaScores("beta", beta, k, 64, 1);
  CheckDeltaScores("from_start", from_start, k, 64, 1);
  CheckDeltaScores("to_end", to_end, k, 64, 1);
  const int64_t blocks = k.size(0) * k.size(1);
  if (blocks == 0) return;
  LaunchDeltaGradients({.blocks = blocks,
                        .keys = keys,
                        .width = width,
                        .dq = FloatsOf(dq),
                        .dk = FloatsOf(dk),
                        .dr = FloatsOf(dr),
                        .dbeta = FloatsOf(dbeta),
                        .dg = FloatsOf(dg),
                        .d_start_q = Read(d_start_q),
                        .d_start_k = Read(d_start_k),
                        .d_end_k = Read(d_end_k),
                        .q = Read(q),
                        .k = Read(k),
                        .unscaled = Read(unscaled),
                        .states = Read(states),
                        .d_states = Read(d_states),
                        .beta = Read(beta),
                        .from_start = Read(from_start),
                        .to_end = Read(to_end)},
                       StreamOf(k));
}

KERNEL_OPERATORS(library) {
  library.impl("delta_scores", TORCH_FN(DeltaScores));
  library.impl("delta_scores_backward", TORCH_FN(DeltaScoresBackward));
  library.impl("delta_gradients", TORCH_FN(DeltaGradients));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
