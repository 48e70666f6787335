#include "model/logits_hook.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"

namespace moonring::model {

std::string Describe(const OpenAnswer& answer) {
  return absl::StrCat("prompt ", answer.prompt + 1, ", answer ", answer.answer + 1);
}

at::Tensor HookedLogits(const LogitsHook& hook, const at::Tensor& logits_BV,
                        absl::Span<const OpenAnswer> answers) {
  const at::Tensor hooked_BV = hook(logits_BV, answers);
  TORCH_CHECK_VALUE(hooked_BV.defined() && hooked_BV.sizes() == logits_BV.sizes() &&
                        hooked_BV.scalar_type() == logits_BV.scalar_type() &&
                        hooked_BV.device() == logits_BV.device(),
                    "logits: the hook's result is ",
                    hooked_BV.defined() ? absl::StrCat(c10::str(hooked_BV.sizes()), " of ",
                                                       c10::toString(hooked_BV.scalar_type()),
                                                       " on ", hooked_BV.device().str())
                                        : "no tensor",
                    ", expected ", logits_BV.sizes(), " of ", logits_BV.scalar_type(), " on ",
                    logits_BV.device(), " as it received");
  // The maximum of a row with a NaN is NaN.
  const at::Tensor most_B = hooked_BV.detach().amax(1).to(at::kCPU, at::kDouble).contiguous();
  const double* const most = most_B.const_data_ptr<double>();
  for (size_t row = 0; row < answers.size(); ++row) {
    TORCH_CHECK_VALUE(std::isfinite(most[row]), "logits: ", Describe(answers[row]), ", token ",
                      answers[row].ids.size(),
                      std::isnan(most[row]) ? ": the hook's result has a NaN"
                      : most[row] > 0       ? ": the hook's result has an infinite logit"
                                            : ": the hook's result is -inf for every id, so that "
                                              "no token can be chosen");
  }
  return hooked_BV;
}

}  // namespace moonring::model
