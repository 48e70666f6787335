#include "kernels/delta_scores.h"

#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {
TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "delta_scores(Tensor(a!)? query, Tensor(b!) key, Tensor g, Tensor beta) "
      "-> (Tensor inverse, Tensor scaled)");
  library.def(
      "delta_scores_backward(Tensor(a!) p, Tensor(b!) r, Tensor query, Tensor key, Tensor g, "
      "Tensor beta) -> (Tensor dbeta, Tensor dg)");
  library.def(
      "delta_gradients(Tensor(a!) dq, Tensor(b!) dk, Tensor(c!) dr, Tensor(d!) dbeta, "
      "Tensor(e!) dg, Tensor d_start_q, Tensor d_start_k, Tensor d_end_k, Tensor q, Tensor k, "
      "Tensor unscaled, Tensor states, Tensor d_states, Tensor beta, Tensor from_start, "
      "Tensor to_end) -> ()");
}

DeltaInverse DeltaScores(at::Tensor query_NHCC, at::Tensor key_NHCC, const at::Tensor& g_NHC1,
                         const at::Tensor& beta_NHC1) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kDeltaScores, "")
          .typed<std::tuple<at::Tensor, at::Tensor>(std::optional<at::Tensor>, at::Tensor,
                                                    const at::Tensor&, const at::Tensor&)>();
  auto [inverse, scaled] =
      op.call(query_NHCC.defined() ? std::optional<at::Tensor>(query_NHCC) : std::nullopt,
              std::move(key_NHCC), g_NHC1, beta_NHC1);
  return {std::move(inverse), std::move(scaled)};
}

DeltaColumns DeltaScoresBackward(at::Tensor p_NHCC, at::Tensor r_NHCC, const at::Tensor& query_NHCC,
                                 const at::Tensor& key_NHCC, const at::Tensor& g_NHC1,
                                 const at::Tensor& beta_NHC1) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::delta_scores_backward", "")
                             .typed<std::tuple<at::Tensor, at::Tensor>(
                                 at::Tensor, at::Tensor, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&, const at::Tensor&)>();
  auto [dbeta, dg] =
      op.call(std::move(p_NHCC), std::move(r_NHCC), query_NHCC, key_NHCC, g_NHC1, beta_NHC1);
  return {std::move(dbeta), std::move(dg)};
}

void DeltaGradients(const DeltaGradientRows& rows) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::delta_gradients", "")
          .typed<void(at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, const at::Tensor&,
                      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      const at::Tensor&, const at::Tensor&)>();
  op.call(rows.dq, rows.dk, rows.dr, rows.dbeta, rows.dg, rows.d_start_q, rows.d_start_k,
          rows.d_end_k, rows.q, rows.k, rows.unscaled, rows.states, rows.d_states, rows.beta,
          rows.from_start, rows.to_end);
}

}  // namespace moonring::kernels
