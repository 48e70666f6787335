#include "kernels/delta_pack.h"

#include <optional>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/optional_tensor.h"

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "delta_pack(Tensor? q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor token_of_slot, "
      "float scale, bool normalize, float eps) -> Tensor[]");
  library.def("delta_pack_rows(Tensor rows, Tensor token_of_slot) -> Tensor");
  library.def(
      "delta_unpack(Tensor packed, Tensor token_of_slot, Tensor? x, float scale, float eps, "
      "Tensor(a!) rows) -> ()");
}

PackedDelta DeltaPack(const DeltaRows& rows, const at::Tensor& token_of_slot,
                      const DeltaRowsRule& rule) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kDeltaPack, "")
          .typed<std::vector<at::Tensor>(const std::optional<at::Tensor>&, const at::Tensor&,
                                         const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         const at::Tensor&, double, bool, double)>();
  const std::vector<at::Tensor> made =
      op.call(IfDefined(rows.q_THK), rows.k_THK, rows.v_THV, rows.g_TH, rows.beta_TH, token_of_slot,
              rule.scale, rule.normalize, rule.eps);
  PackedDelta packed{.q = {},
                     .start_q = {},
                     .k = made[0],
                     .start_k = made[1],
                     .end_k = made[2],
                     .v = made[3],
                     .g = made[4],
                     .beta = made[5],
                     .from_start = made[6],
                     .to_end = made[7]};
  if (made.size() == 8) return packed;
  packed.q = made[8];
  packed.start_q = made[9];
  return packed;
}

at::Tensor DeltaPackRows(const at::Tensor& rows_THX, const at::Tensor& token_of_slot) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::delta_pack_rows", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(rows_THX, token_of_slot);
}

void DeltaUnpack(const at::Tensor& packed_NHCX, const at::Tensor& token_of_slot,
                 const at::Tensor& x_THX, double scale, double eps, at::Tensor rows_THX) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::delta_unpack", "")
          .typed<void(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                      double, double, at::Tensor)>();
  op.call(packed_NHCX, token_of_slot, IfDefined(x_THX), scale, eps, std::move(rows_THX));
}

}  // namespace moonring::kernels
