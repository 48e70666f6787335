#include "objectives/vocabulary/entropy.h"

#include <memory>

#include <ATen/ATen.h>

#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {
namespace {

class EntropyPass : public RowPass {
 public:
  explicit EntropyPass(double temperature) : temperature_(temperature) {}

  at::Tensor Block(at::Tensor z_RV, int64_t, bool differentiate) const override {
    at::Tensor log_p = at::log_softmax(z_RV.div_(temperature_), 1);
    at::exp_out(z_RV, log_p);
    const at::Tensor entropy_R = (z_RV * log_p).sum(1).neg_();
    if (differentiate) z_RV.mul_(log_p.add_(entropy_R.unsqueeze(1))).div_(-temperature_);
    return entropy_R;
  }

 private:
  const double temperature_;
};

}  // namespace

at::Tensor TokenEntropy(const at::Tensor& hidden_TD,
                        const std::shared_ptr<base::Parameter>& head_VD,
                        const at::Tensor& targets_T, double temperature,
                        const ProjectionOptions& options) {
  TORCH_CHECK_VALUE(temperature > 0.0, "objectives.entropy: temperature is ", temperature,
                    ", expected more than 0");
  return LossOfRows(
      {.name = "objectives.entropy",
       .begin = [temperature](const at::Tensor&, at::ScalarType) -> std::unique_ptr<RowPass> {
         return std::make_unique<EntropyPass>(temperature);
       }},
      hidden_TD, head_VD, targets_T, options);
}

}  // namespace moonring::objectives
