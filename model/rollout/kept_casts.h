#ifndef MOONRING_MODEL_ROLLOUT_KEPT_CASTS_H_
#define MOONRING_MODEL_ROLLOUT_KEPT_CASTS_H_

#include "base/autograd/parameter.h"
#include "model/adapter.h"
#include "model/transformer.h"

namespace moonring::model {

// While it lives what a forward casts of the model's weights, as it leases them, is cast once and
// lent again (base::Parameter::KeepCast); nobody may write to them meanwhile. `keep`: else it does
// nothing.
class KeptCasts {
 public:
  KeptCasts(const Transformer& model, bool keep) {
    if (!keep) return;
    parameters_ = model.parameters();
    parameters_.push_back(model.head());
    if (model.adapter() != nullptr) {
      for (const base::Parameters* more : {&model.adapter()->parameters, &model.adapter()->first})
        parameters_.insert(parameters_.end(), more->begin(), more->end());
    }
    for (const auto& parameter : parameters_) parameter->KeepCast(true);
  }
  ~KeptCasts() {
    for (const auto& parameter : parameters_) parameter->KeepCast(false);
  }
  KeptCasts(const KeptCasts&) = delete;
  KeptCasts& operator=(const KeptCasts&) = delete;

 private:
  base::Parameters parameters_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_KEPT_CASTS_H_
