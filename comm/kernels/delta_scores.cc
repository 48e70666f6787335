#include "comm/kernels/delta_scores.h"

#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {
namespace {

using Tensor = at::Tensor;
using OptionalTensor = std::optional<Tensor>;

}  // namespace

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

DeltaInverse DeltaScores(Tensor query_NHCC, Tensor key_NHCC, const Tensor& g_NHC1,
                         const Tensor& beta_NHC1) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kDeltaScores, "")
                             .typed<std::tuple<Tensor, Tensor>(OptionalTensor, Tensor,
                                                               const Tensor&, const Tensor&)>();
  auto [inverse, scaled] = op.call(query_NHCC.defined() ? OptionalTensor(query_NHCC) : std::nullopt,
                                   std::move(key_NHCC), g_NHC1, beta_NHC1);
  return {std::move(inverse), std::move(scaled)};
}

DeltaColumns DeltaScoresBackward(Tensor p_NHCC, Tensor r_NHCC, const Tensor& query_NHCC,
                                 const Tensor& key_NHCC, const Tensor& g_NHC1,
                                 const Tensor& beta_NHC1) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::delta_scores_backward", "")
          .typed<std::tuple<Tensor, Tensor>(Tensor, Tensor, const Tensor&, const Tensor&,
                                            const Tensor&, const Tensor&)>();
  auto [dbeta, dg] =
      op.call(std::move(p_NHCC), std::move(r_NHCC), query_NHCC, key_NHCC, g_NHC1, beta_NHC1);
  return {std::move(dbeta), std::move(dg)};
}

void DeltaGradients(const DeltaGradientRows& rows) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::delta_gradients", "")
          .typed<void(Tensor, Tensor, Tensor, Tensor, Tensor, const Tensor&, const Tensor&,
                      const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&, const Tensor&, const Tensor&, const Tensor&)>();
  op.call(rows.dq, rows.dk, rows.dr, rows.dbeta, rows.dg, rows.d_start_q, rows.d_start_k,
          rows.d_end_k, rows.q, rows.k, rows.unscaled, rows.states, rows.d_states, rows.beta,
          rows.from_start, rows.to_end);
}

}  // namespace moonring::kernels
