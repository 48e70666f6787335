#include "model/blocks/given_weights.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include "base/memory/to_device.h"
#include "base/text/nearest_name.h"
#include "model/blocks/composed_scope.h"

namespace moonring::model {
namespace {

at::Tensor WeightOf(const std::shared_ptr<base::Parameter>& parameter, at::ScalarType dtype,
                    const GivenWeights& given) {
  if (parameter == nullptr) return {};
  const auto found = given.find(parameter->name());
  return found == given.end() ? parameter->Lease(dtype) : found->second.to(dtype);
}

}  // namespace

std::vector<at::Tensor> ComposeBlock(const BlockFunction& function, const std::vector<Loan>& loans,
                                     const BlockInputs& inputs, const GivenWeights& given) {
  const ComposedScope composed;
  std::vector<at::Tensor> weights;
  for (const Loan& loan : loans) weights.push_back(WeightOf(loan.parameter, loan.dtype, given));
  return function(weights, inputs, {});
}

at::Tensor ComposedLookUp(const std::shared_ptr<base::Parameter>& embedding_VD,
                          const at::Tensor& ids_T, const LookUpOptions& options,
                          const GivenWeights& given) {
  const at::Tensor table_VD = WeightOf(embedding_VD, options.lookup_dtype, given),
                   there_T = base::ToDevice(ids_T, table_VD.device());
  at::Tensor rows_TD = table_VD.index_select(0, there_T);
  if (options.pad_id.has_value())
    rows_TD = at::where(there_T.eq(*options.pad_id).unsqueeze(1), rows_TD.detach(), rows_TD);
  return rows_TD.to(options.result_dtype);
}

void CheckGiven(const GivenWeights& given, const base::Parameters& parameters) {
  for (const auto& [name, weight] : given) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& each) { return each->name() == name; });
    if (found == parameters.end()) {
      std::vector<std::string> names;
      for (const auto& each : parameters) names.push_back(each->name());
      TORCH_CHECK_VALUE(false, "weights: '", name, "' is no weight of this model",
                        base::DidYouMean(name, names));
    }
    TORCH_CHECK_VALUE(weight.sizes() == (*found)->shape() && weight.is_floating_point() &&
                          weight.device().type() == (*found)->device().type(),
                      "weights: ", name, " is ", weight.scalar_type(), " ", weight.sizes(), " on ",
                      weight.device(), ", expected numbers ", (*found)->shape(), " on ",
                      (*found)->device());
  }
}

}  // namespace moonring::model
