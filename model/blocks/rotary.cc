#include "model/blocks/rotary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "kernels/choice.h"
#include "kernels/rotary.h"
#include "model/blocks/composed_scope.h"

namespace moonring::model {
namespace {

// theta^(2f / dim), whose inverses are the frequencies. Computing them as inverses instead of
// theta^(-2f / dim) rounds as Transformers does, so fp32 angles agree to the last bit.
at::Tensor Wavelengths(double theta, int64_t dim, at::ScalarType dtype) {
  return at::pow(theta, at::arange(0, dim, 2, at::kLong).to(dtype) / static_cast<double>(dim));
}

at::Tensor Dynamic(const RotaryRule& rule, int64_t length, at::ScalarType dtype) {
  const double n = std::max(static_cast<double>(length), rule.original_length),
               dim = static_cast<double>(rule.dim);
  const double stretch = rule.factor * n / rule.original_length - (rule.factor - 1);
  return Wavelengths(rule.theta * std::pow(stretch, dim / (dim - 2)), rule.dim, dtype)
      .reciprocal_();
}

// The (fractional) index f of the pair that makes `rotations` full turns over the original context
// length.
double YarnPair(const RotaryRule& rule, double rotations) {
  return static_cast<double>(rule.dim) * std::log(rule.original_length / (rotations * 2 * M_PI)) /
         (2 * std::log(rule.theta));
}

at::Tensor Yarn(const RotaryRule& rule, at::ScalarType dtype) {
  double low = YarnPair(rule, rule.beta_fast), high = YarnPair(rule, rule.beta_slow);
  if (rule.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rule.dim - 1));
  if (low == high) high += 0.001;
  const at::Tensor waves_F = Wavelengths(rule.theta, rule.dim, dtype);
  const at::Tensor ramp_F =
      ((at::arange(rule.dim / 2, at::TensorOptions(dtype)) - low) / (high - low)).clamp_(0, 1);
  const at::Tensor kept_F = 1 - ramp_F;  // weight of the unscaled frequencies
  return (waves_F * rule.factor).reciprocal_() * (1 - kept_F) + waves_F.reciprocal() * kept_F;
}

at::Tensor Llama3(const RotaryRule& rule, at::ScalarType dtype) {
  const at::Tensor plain_F = Wavelengths(rule.theta, rule.dim, dtype).reciprocal_();
  const at::Tensor length_F = 2 * M_PI / plain_F;  // wavelengths
  const double longest = rule.original_length / rule.low_freq_factor,
               shortest = rule.original_length / rule.high_freq_factor;
  const at::Tensor slowed_F = at::where(length_F > longest, plain_F / rule.factor, plain_F);
  const at::Tensor smooth_F = (rule.original_length / length_F - rule.low_freq_factor) /
                              (rule.high_freq_factor - rule.low_freq_factor);
  const at::Tensor between_F = (1 - smooth_F) * slowed_F / rule.factor + smooth_F * slowed_F;
  return at::where((length_F >= shortest).logical_and(length_F <= longest), between_F, slowed_F);
}

at::Tensor LongRope(const RotaryRule& rule, int64_t length, at::ScalarType dtype) {
  const std::vector<double>& factors =
      static_cast<double>(length) > rule.original_length ? rule.long_factor : rule.short_factor;
  TORCH_CHECK(static_cast<int64_t>(factors.size()) == rule.dim / 2, "longrope: ", factors.size(),
              " factors for ", rule.dim / 2, " pairs");
  return (at::tensor(factors, at::kDouble).to(dtype) * Wavelengths(rule.theta, rule.dim, dtype))
      .reciprocal_();
}

at::Tensor Proportional(const RotaryRule& rule, at::ScalarType dtype) {
  at::Tensor frequencies_F = Wavelengths(rule.theta, rule.dim, dtype).reciprocal_() / rule.factor;
  frequencies_F.narrow(0, rule.turning_pairs, rule.dim / 2 - rule.turning_pairs).zero_();
  return frequencies_F;
}

// The frequencies of each row, [T, F], which depend on the length of the row's document. Lengths
// are copied to the CPU.
at::Tensor FrequenciesOfRows(const RotaryRule& rule, const at::Tensor& lengths_T,
                             at::ScalarType dtype, const c10::Device& device) {
  std::map<int64_t, int64_t> row_of_length;
  const at::Tensor lengths = lengths_T.to(at::kCPU, at::kLong).contiguous();
  const int64_t* length = lengths.const_data_ptr<int64_t>();
  at::Tensor rows_T = base::HostTensorFor(device, {lengths.numel()}, at::kLong);
  int64_t* row = rows_T.mutable_data_ptr<int64_t>();
  for (int64_t t = 0; t < lengths.numel(); ++t)
    row[t] = row_of_length.try_emplace(length[t], static_cast<int64_t>(row_of_length.size()))
                 .first->second;
  at::Tensor table_UF = at::empty({static_cast<int64_t>(row_of_length.size()), rule.dim / 2},
                                  at::TensorOptions(dtype));
  for (const auto& [of_length, index] : row_of_length)
    table_UF[index].copy_(InverseFrequencies(rule, of_length, dtype));
  return base::ToDevice(table_UF, device).index_select(0, base::ToDevice(rows_T, device));
}

// Rotates pairs of features: `sign` is 1 for the rotation and -1 for its inverse. Returns a new
// contiguous tensor.
at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                     bool interleaved, double sign) {
  const at::Tensor wide = x.to(cos.scalar_type());
  const int64_t pairs = cos.size(-1), rest = x.size(-1) - 2 * pairs;
  const auto first = [&](const at::Tensor& t) {
    return interleaved ? t.slice(-1, 0, 2 * pairs, 2) : t.narrow(-1, 0, pairs);
  };
  const auto second = [&](const at::Tensor& t) {
    return interleaved ? t.slice(-1, 1, 2 * pairs, 2) : t.narrow(-1, pairs, pairs);
  };
  const at::Tensor result = at::empty_like(wide, at::MemoryFormat::Contiguous);
  at::Tensor first_result = first(result), second_result = second(result);
  at::mul_out(first_result, first(wide), cos).addcmul_(second(wide), sin, -sign);
  at::mul_out(second_result, second(wide), cos).addcmul_(first(wide), sin, sign);
  if (rest > 0) result.narrow(-1, 2 * pairs, rest).copy_(wide.narrow(-1, 2 * pairs, rest));
  return result.to(x.scalar_type());
}

// TurnPairs of operators that can be differentiated twice (composed_scope.h).
at::Tensor ComposedTurn(const at::Tensor& x_THD, const Rotary& rotary) {
  const at::Tensor &cos = rotary.cos_T1F, &sin = rotary.sin_T1F;
  const at::Tensor wide = x_THD.to(cos.scalar_type());
  const int64_t pairs = cos.size(-1);
  const at::Tensor turned = wide.narrow(-1, 0, 2 * pairs),
                   rest = wide.narrow(-1, 2 * pairs, wide.size(-1) - 2 * pairs);
  const auto part = [&](int64_t i) {
    return rotary.interleaved ? turned.slice(-1, i, std::nullopt, 2)
                              : turned.narrow(-1, i * pairs, pairs);
  };
  const at::Tensor a = part(0) * cos - part(1) * sin, b = part(1) * cos + part(0) * sin;
  const at::Tensor both =
      rotary.interleaved ? at::stack({a, b}, -1).flatten(-2) : at::cat({a, b}, -1);
  return at::cat({both, rest}, -1).to(x_THD.scalar_type());
}

void CheckHeads(const at::Tensor& x_THD, const Rotary& rotary) {
  TORCH_CHECK(x_THD.dim() == 3 && x_THD.size(0) == rotary.cos_T1F.size(0) &&
                  x_THD.size(2) >= 2 * rotary.cos_T1F.size(2),
              "Rotary: rows of shape ", x_THD.sizes(), ", cosines of shape ",
              rotary.cos_T1F.sizes());
}

}  // namespace

at::Tensor InverseFrequencies(const RotaryRule& rule, int64_t length, at::ScalarType dtype) {
  TORCH_CHECK(rule.dim > 0 && rule.dim % 2 == 0, "Rotary: ", rule.dim,
              " rotated features, expected an even positive number");
  switch (rule.kind) {
    case RopeKind::kDynamic:
      return Dynamic(rule, length, dtype);
    case RopeKind::kYarn:
      return Yarn(rule, dtype);
    case RopeKind::kLlama3:
      return Llama3(rule, dtype);
    case RopeKind::kLongRope:
      return LongRope(rule, length, dtype);
    case RopeKind::kProportional:
      return Proportional(rule, dtype);
    case RopeKind::kLinear:
      return Wavelengths(rule.theta, rule.dim, dtype).reciprocal_().div_(rule.factor);
    case RopeKind::kDefault:
      break;
  }
  return Wavelengths(rule.theta, rule.dim, dtype).reciprocal_();
}

Rotary MakeRotary(const RotaryRule& rule, const at::Tensor& positions_T,
                  const at::Tensor& lengths_T, at::ScalarType dtype) {
  TORCH_CHECK(positions_T.dim() == 1, "Rotary: positions of shape ", positions_T.sizes(),
              ", expected [T]");
  at::NoGradGuard no_grad;
  at::Tensor frequencies_TF;
  if (rule.depends_on_length()) {
    TORCH_CHECK(lengths_T.defined() && lengths_T.sizes() == positions_T.sizes(),
                "Rotary: ", RopeName(rule.kind),
                " scaling goes by the length of each token's document: lengths of shape ",
                positions_T.sizes(), " are expected");
    frequencies_TF = FrequenciesOfRows(rule, lengths_T, dtype, positions_T.device());
  } else {
    frequencies_TF = base::ToDevice(InverseFrequencies(rule, 0, dtype), positions_T.device());
  }
  const at::Tensor angles_T1F = (positions_T.to(dtype).unsqueeze(1) * frequencies_TF).unsqueeze(1);
  Rotary rotary{angles_T1F.cos(), angles_T1F.sin(), rule.interleaved};
  if (rule.attention_factor != 1.0) {
    rotary.cos_T1F.mul_(rule.attention_factor);
    rotary.sin_T1F.mul_(rule.attention_factor);
  }
  if (rule.query_growth != 0.0) {
    const at::Tensor wraps_T = (positions_T.to(dtype) / rule.query_growth_length).floor_();
    rotary.query_scale_T11 = (wraps_T.log1p() * rule.query_growth + 1).view({-1, 1, 1});
  }
  return rotary;
}

at::Tensor ApplyRotary(const at::Tensor& x_THD, const Rotary& rotary) {
  CheckHeads(x_THD, rotary);
  if (Composes()) return ComposedTurn(x_THD, rotary);
  // The backward of a rotation is the rotation by the opposite angle. The attention factor, which
  // is part of cos and sin, applies to forward and backward.
  return base::ApplyToOne(
      {.name = "Rotary",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {rotary.cos_T1F, rotary.sin_T1F};
         return {TurnPairs(x_THD, rotary.cos_T1F, rotary.sin_T1F, rotary.interleaved, 1.0)};
       },
       .backward = [interleaved = rotary.interleaved](base::BackwardCall& call) -> base::Tensors {
         return {TurnPairs(call.gradients[0], call.saved[0], call.saved[1], interleaved, -1.0)};
       }},
      {x_THD});
}

TurnedHeads ApplyRotary(const at::Tensor& q_THD, const at::Tensor& k_TKD, const Rotary& rotary) {
  if (!kernels::UseKernel(q_THD, kernels::kRotary) || Composes())
    return {ApplyRotary(q_THD, rotary), ApplyRotary(k_TKD, rotary)};
  CheckHeads(q_THD, rotary);
  CheckHeads(k_TKD, rotary);
  const auto turn = [interleaved = rotary.interleaved](const at::Tensor& q, const at::Tensor& k,
                                                       const at::Tensor& cos, const at::Tensor& sin,
                                                       bool back) -> base::Tensors {
    kernels::Turned turned = kernels::Rotate(q, k, cos, sin, interleaved, back);
    return {std::move(turned.q_THD), std::move(turned.k_TKD)};
  };
  base::Tensors made = base::Apply(
      {.name = "Rotary",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {rotary.cos_T1F, rotary.sin_T1F};
         return turn(q_THD, k_TKD, rotary.cos_T1F, rotary.sin_T1F, false);
       },
       .backward = [turn](base::BackwardCall& call) -> base::Tensors {
         return turn(call.gradients[0], call.gradients[1], call.saved[0], call.saved[1], true);
       }},
      {q_THD, k_TKD});
  return {std::move(made[0]), std::move(made[1])};
}

}  // namespace moonring::model
