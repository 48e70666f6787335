#include "mixers/rule/delta_recurrence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

namespace moonring::mixers {
namespace {

at::Tensor HeadRows(const at::Tensor& x_THK, int64_t groups, const DeltaOptions& options,
                    at::ScalarType dtype) {
  at::Tensor x = x_THK.to(dtype);
  if (options.normalize) x = x * (x.square().sum(-1, /*keepdim=*/true) + options.eps).rsqrt();
  return groups == 1 ? x : x.repeat_interleave(groups, 1);
}

at::Tensor FirstStates(const DeltaInputs& inputs, int64_t documents) {
  if (inputs.initial_DHVK.defined()) return inputs.initial_DHVK;
  const at::Tensor& v = inputs.v_THV;
  return at::zeros({documents, v.size(1), v.size(2), inputs.k_THK.size(2)},
                   v.options().dtype(StateDtype(inputs)));
}

}  // namespace

DeltaStepResult DeltaStep(const DeltaInputs& inputs, const DeltaOptions& options) {
  const int64_t documents = inputs.v_THV.size(0);
  const at::ScalarType dtype = StateDtype(inputs);
  const int64_t groups = inputs.v_THV.size(1) / inputs.q_THK.size(1);
  const at::Tensor q =
      HeadRows(inputs.q_THK, groups, options, dtype).unsqueeze(-1);  // [D, H, d_k, 1]
  const at::Tensor k = HeadRows(inputs.k_THK, groups, options, dtype).unsqueeze(-1);
  at::Tensor decay = inputs.g.to(dtype).exp();
  if (decay.dim() == 2) decay = decay.unsqueeze(-1);
  const at::Tensor decayed = FirstStates(inputs, documents) * decay.unsqueeze(-2);
  const at::Tensor beta = inputs.beta_TH.to(dtype).unsqueeze(-1).unsqueeze(-1);
  at::Tensor written = inputs.v_THV.to(dtype).unsqueeze(-1);  // [D, H, d_v, 1]
  if (options.delta) written = written - at::matmul(decayed, k);
  const at::Tensor state = decayed + at::matmul(written * beta, k.mT());
  const at::Tensor out = at::matmul(state, q).squeeze(-1) * options.scale;
  return {out.to(inputs.v_THV.scalar_type()), state};
}

DeltaResult DeltaRecurrence(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                            const DeltaOptions& options) {
  CheckDeltaInputs(inputs, lengths);
  const at::Tensor first = FirstStates(inputs, lengths.size());
  std::vector<at::Tensor> outs, states;
  int64_t row = 0;
  for (size_t document = 0; document < lengths.size(); ++document) {
    at::Tensor state = first.narrow(0, document, 1);
    for (const int64_t end = row + lengths[document]; row < end; ++row) {
      const auto token = [row](const at::Tensor& x) { return x.narrow(0, row, 1); };
      DeltaStepResult step =
          DeltaStep({token(inputs.q_THK), token(inputs.k_THK), token(inputs.v_THV), token(inputs.g),
                     token(inputs.beta_TH), state},
                    options);
      outs.push_back(step.out_DHV);
      state = step.state_DHVK;
    }
    states.push_back(state);
  }
  return {outs.empty() ? inputs.v_THV.clone() : at::cat(outs),
          states.empty() ? first : at::cat(states)};
}

}  // namespace moonring::mixers
