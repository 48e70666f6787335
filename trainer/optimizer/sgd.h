#ifndef MOONRING_TRAINER_OPTIMIZER_SGD_H_
#define MOONRING_TRAINER_OPTIMIZER_SGD_H_

// Plain gradient descent: w <- w (1 - lr * decay) - lr * g, without momentum or state (w: weight,
// g: gradient). A bf16 weight is updated in fp32 and rounded once. With lr 1, no decay and no
// clipping, (w0 - w1) is the gradient; a wrong constant factor of the gradient is visible then,
// while AdamW would hide it.

#include <memory>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/text/fields.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/optimizer/optimizer.h"

namespace moonring::trainer {

struct SgdOptions {
  double weight_decay = 0.0;
  double loraplus_ratio = 1.0;

  static constexpr std::tuple kFields = {
      base::Field{"loraplus_lr_ratio", &SgdOptions::loraplus_ratio, kLoraPlusMeaning},
      base::Field{"weight_decay", &SgdOptions::weight_decay,
                  "decoupled weight decay, not applied to biases and norms"},
  };
};

class Sgd : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Sgd>> Create(SgdOptions options,
                                                     base::Parameters parameters);

  void Step(double lr) override;
  std::map<std::string, at::Tensor> SaveState() const override { return {}; }
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;
  int64_t state_bytes() const override { return 0; }
  base::Parameters parameters() const override { return parameters_; }

 private:
  Sgd(SgdOptions options, base::Parameters parameters)
      : options_(options), parameters_(std::move(parameters)) {}

  SgdOptions options_;
  base::Parameters parameters_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_SGD_H_
