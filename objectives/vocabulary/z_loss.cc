#include "objectives/vocabulary/z_loss.h"

#include <memory>

#include <ATen/ATen.h>

#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {
namespace {

class ZLossPass : public RowPass {
 public:
  at::Tensor Block(at::Tensor z_RV, int64_t, bool differentiate) const override {
    const at::Tensor logsumexp_R1 = z_RV.logsumexp(1, /*keepdim=*/true);
    if (differentiate) z_RV.sub_(logsumexp_R1).exp_().mul_(logsumexp_R1 * 2.0);
    return logsumexp_R1.square().squeeze(1);
  }
};

}  // namespace

at::Tensor TokenZLoss(const at::Tensor& hidden_TD, const std::shared_ptr<base::Parameter>& head_VD,
                      const at::Tensor& targets_T, const ProjectionOptions& options) {
  return LossOfRows({.name = "objectives.z_loss",
                     .begin = [](const at::Tensor&, at::ScalarType) -> std::unique_ptr<RowPass> {
                       return std::make_unique<ZLossPass>();
                     }},
                    hidden_TD, head_VD, targets_T, options);
}

}  // namespace moonring::objectives
