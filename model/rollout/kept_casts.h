#ifndef MOONRING_MODEL_ROLLOUT_KEPT_CASTS_H_
#define MOONRING_MODEL_ROLLOUT_KEPT_CASTS_H_

#include "base/autograd/parameter.h"
#include "model/adapter.h"
#include "model/transformer.h"

namespace moonring::model {

// While a KeptCasts exists, each weight of the model is cast to the matmul dtype only once, when it
// is first used, and the cast copy is reused (base::Parameter::KeepCast). The weights must not be
// changed during that time. Does nothing if `keep` is false.
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
