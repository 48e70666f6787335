#include "model/blocks/projection.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/norm.h>

#include "base/autograd/custom_function.h"
#include "kernels/choice.h"
#include "kernels/philox.h"
#include "kernels/products/products.h"
#include "kernels/random/counter_random.h"
#include "model/blocks/block_rotation.h"
#include "model/blocks/composed_scope.h"
#include "model/blocks/layers.h"

namespace moonring::model {
namespace {

using base::BackwardCall;
using base::Tensors;

// Number of elements of W + s B A that are computed at a time: on a CPU they fit in a core's cache;
// on a GPU they are 64 MiB in fp32, so that few kernels are launched.
int64_t NormElements(const c10::Device& device) {
  return device.is_cpu() ? int64_t{1} << 20 : int64_t{1} << 24;
}

// Applies a map's dropout to x in the forward, and the same mask to gradients in the backward.
class Dropping {
 public:
  Dropping(const Dropout& dropout, const at::Tensor& x_TI) : dropout_(dropout) {
    if (dropout.rate == 0.0 || !dropout.identity_T.defined()) return;
    TORCH_CHECK(dropout.identity_T.size(0) == x_TI.size(0), "dropout: ", dropout.identity_T.size(0),
                " identities for ", x_TI.size(0), " rows");
    on_ = true;
    fused_ = kernels::UseKernel(x_TI, kernels::kDropout) && !Composes();
    if (fused_) return;
    const at::Tensor uniform_TI =
        kernels::CounterUniform(dropout.key, dropout.identity_T, x_TI.size(1));
    kept_TI_ = uniform_TI.ge(dropout.rate).to(x_TI.scalar_type()).mul_(1.0 / (1.0 - dropout.rate));
  }

  bool on() const { return on_; }

  at::Tensor Of(const at::Tensor& x_TI) const {
    if (!on_) return x_TI;
    return fused_ ? kernels::Dropout(x_TI, dropout_.key, dropout_.identity_T, dropout_.rate)
                  : x_TI * kept_TI_;
  }
  void InPlace(at::Tensor& x_TI) const {
    if (fused_) {
      kernels::DropoutInPlace(x_TI, dropout_.key, dropout_.identity_T, dropout_.rate);
    } else if (on_) {
      x_TI.mul_(kept_TI_);
    }
  }

 private:
  const Dropout& dropout_;
  bool on_ = false, fused_ = false;
  at::Tensor kept_TI_;  // 0 or 1 / (1 - rate); unused if the GPU has a kernel
};

// Returns gain_O times y_TO, computed in the dtype of gain_O and rounded to the dtype of y_TO.
at::Tensor Scaled(const at::Tensor& y_TO, const at::Tensor& gain_O) {
  return (y_TO * gain_O).to(y_TO.scalar_type());
}

// One execution of a linear map with LoRA or DoRA: forward and backward, both without autograd.
struct Run {
  at::Tensor weight, a, b, magnitude, norm;  // magnitude and norm: DoRA only
  double scale = 1.0;
  Dropout dropout;
  at::Tensor u, z;  // made by Forward, needed by Backward

  at::Tensor Forward(const at::Tensor& x, const at::Tensor& bias) {
    const Dropping dropping(dropout, x);
    const at::Tensor dropped = dropping.Of(x);
    u = kernels::Product(dropped, a.t());
    if (!magnitude.defined()) {
      at::Tensor y = Linear(x, weight, bias);
      kernels::AddProduct(y, u, b.t(), 1.0, scale);
      return y;
    }
    norm = AdaptedRowNorms(weight, a, b, scale);
    z = kernels::Product(dropped, weight.t());
    at::Tensor y;
    if (dropping.on()) y = Linear(x, weight, bias).sub_(z);
    kernels::AddProduct(z, u, b.t(), 1.0, scale);
    const at::Tensor scaled = Scaled(z, magnitude / norm);
    if (y.defined()) return y.add_(scaled);
    return bias.defined() ? scaled + bias : scaled;
  }

  struct Gradients {
    at::Tensor x, a, b, magnitude;
  };
  Gradients Backward(const at::Tensor& x, const at::Tensor& dy, bool needs_x) const {
    const Dropping dropping(dropout, x);
    const bool dora = magnitude.defined();
    const at::Tensor dz = dora ? Scaled(dy, magnitude / norm) : dy;
    Gradients gradients;
    if (dora) gradients.magnitude = (dy.to(norm.scalar_type()) * z).sum(0).div_(norm);
    const at::Tensor du = kernels::Product(dz, b).mul_(scale);
    gradients.b = kernels::Product(dz.t(), u).mul_(scale);
    gradients.a = kernels::Product(du.t(), dropping.Of(x));
    if (!needs_x) return gradients;
    at::Tensor dx = kernels::Product(du, a);
    if (dropping.on()) {
      if (dora) kernels::AddProduct(dx, dz - dy, weight);
      dropping.InPlace(dx);
    }
    kernels::AddProduct(dx, dora && !dropping.on() ? dz : dy, weight);
    gradients.x = dx;
    return gradients;
  }

  // Appends the tensors that the backward needs to `saved`.
  void Save(Tensors* saved) const {
    saved->insert(saved->end(), {weight, a, b, magnitude, norm, u, z, dropout.identity_T});
  }
  // Rebuilds a Run from the tensors that Save has appended, which begin at index `first` of
  // `saved`.
  static Run Saved(const LowRank& map, const Tensors& saved, size_t first) {
    const auto at = [&](size_t i) { return saved[first + i]; };
    const Dropout dropout{map.dropout.rate, map.dropout.key, at(7)};
    return {at(0), at(1), at(2), at(3), at(4), map.scale, dropout, at(5), at(6)};
  }
};

Run MakeRun(const Projection& map) {
  const LowRank& low = *map.low_rank;
  return {map.weight_OI, low.a_RI, low.b_OR, low.magnitude_O, {}, low.scale, low.dropout, {}, {}};
}

// A copy of `low` without its tensors. A backward function may capture this copy; tensors must be
// saved in the autograd node instead.
LowRank WithoutTensors(const LowRank& low) {
  LowRank numbers;
  numbers.scale = low.scale;
  numbers.dropout.rate = low.dropout.rate;
  numbers.dropout.key = low.dropout.key;
  return numbers;
}

// Runs a map with OFT: x R W^T + b, with R the rotation I + D.
at::Tensor RunRotated(const Projection& map, const at::Tensor& x_TI) {
  return Linear(Rotate(x_TI, RotationOf(*map.rotation)), map.weight_OI, map.bias_O);
}

struct RotatedGradients {
  at::Tensor x, skew;
};
// Backward of RunRotated, block n of the rotation R_n = I + D_n: d(x R) = dy W, dx = d(x R) R^T,
// dD_n = x_n^T d(x R)_n.
RotatedGradients RotatedBackward(const BlockRotation& rotation, const at::Tensor& weight_OI,
                                 const at::Tensor& x_TI, const at::Tensor& dy_TO, bool needs_x,
                                 bool needs_skew) {
  const at::Tensor change = RotationOf(rotation), dturned = kernels::Product(dy_TO, weight_OI);
  RotatedGradients gradients;
  if (needs_skew)
    gradients.skew = RotationBackward(rotation, RotateBackwardOfRotation(x_TI, dturned, change));
  if (needs_x) gradients.x = RotateBackward(dturned, change);
  return gradients;
}

void CheckRotated(const Projection& map, int64_t features) {
  const at::Tensor &w = map.weight_OI, &skew = map.rotation->skew_NE;
  TORCH_CHECK(!map.low_rank.has_value(), "adapter: a low-rank map that is turned too");
  TORCH_CHECK(skew.dim() == 2 && skew.size(0) * RotatedBlockSize(skew.size(1)) == w.size(1) &&
                  features == w.size(1),
              "adapter: a rotation of shape ", skew.sizes(), " for a weight of shape ", w.sizes(),
              " and ", features, " features");
  TORCH_CHECK(!w.requires_grad() && !(map.bias_O.defined() && map.bias_O.requires_grad()),
              "adapter: the weight under it is not frozen");
}

at::Tensor ProjectRotated(const Projection& map, const at::Tensor& x_TI) {
  CheckRotated(map, x_TI.size(1));
  return base::ApplyToOne(
      {.name = "rotated projection",
       .forward = [&](Tensors* saved) -> Tensors {
         *saved = {x_TI, map.weight_OI, map.rotation->skew_NE};
         return {RunRotated(map, x_TI)};
       },
       .backward = [terms = map.rotation->terms](BackwardCall& call) -> Tensors {
         const RotatedGradients d =
             RotatedBackward({call.saved[2], terms}, call.saved[1], call.saved[0],
                             call.gradients[0], call.wanted[0], call.wanted[1]);
         return {d.x, d.skew};
       }},
      {x_TI, map.rotation->skew_NE});
}

at::Tensor ProjectGatedRotated(const Projection& map, const at::Tensor& gate_TI,
                               const at::Tensor& up_TI, Activation activation) {
  CheckRotated(map, gate_TI.size(1));
  return base::ApplyToOne(
      {.name = "rotated gated projection",
       .forward = [&](Tensors* saved) -> Tensors {
         *saved = {gate_TI, up_TI, map.weight_OI, map.rotation->skew_NE};
         return {RunRotated(map, GatedProduct(gate_TI, up_TI, activation))};
       },
       .backward = [terms = map.rotation->terms, activation](BackwardCall& call) -> Tensors {
         GatedProductAgain product(call.saved[0], call.saved[1], activation);
         const bool needs_product = call.wanted[0] || call.wanted[1];
         RotatedGradients d =
             RotatedBackward({call.saved[3], terms}, call.saved[2], product.Product(),
                             call.gradients[0], needs_product, call.wanted[2]);
         GatedProductAgain::Gradients inner;
         if (needs_product) inner = product.Backward(std::move(d.x));
         return {inner.gate_TI, inner.up_TI, d.skew};
       }},
      {gate_TI, up_TI, map.rotation->skew_NE});
}

void Check(const Projection& map) {
  const LowRank& low = *map.low_rank;
  const at::Tensor &w = map.weight_OI, &a = low.a_RI, &b = low.b_OR;
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == w.size(1) && b.size(0) == w.size(0) &&
                  a.size(0) == b.size(1),
              "adapter: A of shape ", a.sizes(), ", B of shape ", b.sizes(),
              " for a weight of shape ", w.sizes());
  TORCH_CHECK(!w.requires_grad() && !(map.bias_O.defined() && map.bias_O.requires_grad()),
              "adapter: the weight under it is not frozen");
  TORCH_CHECK(low.dropout.rate >= 0.0 && low.dropout.rate < 1.0, "adapter: dropout ",
              low.dropout.rate, ", expected 0 <= rate < 1");
}

// A map with LoRA or DoRA, of operators that can be differentiated twice (composed_scope.h).
at::Tensor ComposedProject(const Projection& map, const at::Tensor& x_TI) {
  const LowRank& low = *map.low_rank;
  const Dropping dropping(low.dropout, x_TI);
  const at::Tensor dropped_TI = dropping.Of(x_TI),
                   added_TO = at::linear(at::linear(dropped_TI, low.a_RI), low.b_OR) * low.scale;
  if (!low.magnitude_O.defined())
    return Linear(x_TI, map.weight_OI, map.bias_O, nullptr) + added_TO;
  const at::Tensor plain_TO = at::linear(dropped_TI, map.weight_OI),
                   gain_O = low.magnitude_O /
                            AdaptedRowNorms(map.weight_OI, low.a_RI, low.b_OR, low.scale);
  const at::Tensor y_TO = Scaled(plain_TO + added_TO, gain_O);
  if (dropping.on()) return Linear(x_TI, map.weight_OI, map.bias_O, nullptr) - plain_TO + y_TO;
  return map.bias_O.defined() ? y_TO + map.bias_O : y_TO;
}

}  // namespace

at::Tensor AdaptedRowNorms(const at::Tensor& weight_OI, const at::Tensor& a_RI,
                           const at::Tensor& b_OR, double scale) {
  at::NoGradGuard no_grad;
  const at::ScalarType wide = WideDtype(weight_OI.scalar_type());
  const at::Tensor a = a_RI.to(wide);
  const int64_t rows = weight_OI.size(0),
                step = std::max<int64_t>(
                    1, NormElements(weight_OI.device()) / std::max<int64_t>(1, weight_OI.size(1)));
  at::Tensor norms_O = at::empty({rows}, weight_OI.options().dtype(wide));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const at::Tensor sum = at::addmm(weight_OI.narrow(0, begin, count).to(wide),
                                     b_OR.narrow(0, begin, count).to(wide), a, 1.0, scale);
    norms_O.narrow(0, begin, count).copy_(sum.norm(2, {1}));
  }
  return norms_O;
}

at::Tensor Project(const Projection& projection, const at::Tensor& x_TI) {
  if (projection.rotation.has_value()) return ProjectRotated(projection, x_TI);
  if (!projection.low_rank.has_value())
    return Linear(x_TI, projection.weight_OI, projection.bias_O, projection.sum);
  Check(projection);
  if (Composes()) return ComposedProject(projection, x_TI);
  const LowRank& low = *projection.low_rank;
  return base::ApplyToOne(
      {.name = "adapted projection",
       .forward = [&](Tensors* saved) -> Tensors {
         Run run = MakeRun(projection);
         at::Tensor y = run.Forward(x_TI, projection.bias_O);
         *saved = {x_TI};
         run.Save(saved);
         return {y};
       },
       .backward = [numbers = WithoutTensors(low)](BackwardCall& call) -> Tensors {
         const Run run = Run::Saved(numbers, call.saved, 1);
         Run::Gradients d = run.Backward(call.saved[0], call.gradients[0], call.wanted[0]);
         return {d.x, d.a, d.b, d.magnitude};
       }},
      {x_TI, low.a_RI, low.b_OR, low.magnitude_O});
}

at::Tensor ProjectGated(const Projection& projection, const at::Tensor& gate_TI,
                        const at::Tensor& up_TI, Activation activation) {
  if (!projection.adapted())
    return GatedDown(gate_TI, up_TI, projection.weight_OI, projection.bias_O, activation,
                     projection.sum);
  TORCH_CHECK(!up_TI.defined() || gate_TI.sizes() == up_TI.sizes(),
              "gated projection: gate of shape ", gate_TI.sizes(), ", up of shape ", up_TI.sizes());
  if (projection.rotation.has_value())
    return ProjectGatedRotated(projection, gate_TI, up_TI, activation);
  Check(projection);
  if (Composes()) return ComposedProject(projection, GatedProduct(gate_TI, up_TI, activation));
  const LowRank& low = *projection.low_rank;
  return base::ApplyToOne(
      {.name = "adapted gated projection",
       .forward = [&](Tensors* saved) -> Tensors {
         Run run = MakeRun(projection);
         at::Tensor y = run.Forward(GatedProduct(gate_TI, up_TI, activation), projection.bias_O);
         *saved = {gate_TI, up_TI};
         run.Save(saved);
         return {y};
       },
       .backward = [numbers = WithoutTensors(low), activation](BackwardCall& call) -> Tensors {
         const Run run = Run::Saved(numbers, call.saved, 2);
         const at::Tensor &gate = call.saved[0], &up = call.saved[1];
         GatedProductAgain product(gate, up, activation);
         const bool needs_product = call.wanted[0] || call.wanted[1];
         Run::Gradients d = run.Backward(product.Product(), call.gradients[0], needs_product);
         GatedProductAgain::Gradients inner;
         if (needs_product) inner = product.Backward(std::move(d.x));
         return {inner.gate_TI, inner.up_TI, d.a, d.b, d.magnitude};
       }},
      {gate_TI, up_TI, low.a_RI, low.b_OR, low.magnitude_O});
}

at::Tensor RunMlp(const GatedMaps& maps, const at::Tensor& x_TD, Activation activation) {
  const at::Tensor gate_TI = Project(maps.gate, x_TD);
  at::Tensor up_TI;
  if (maps.up.weight_OI.defined()) up_TI = Project(maps.up, x_TD);
  return ProjectGated(maps.down, gate_TI, up_TI, activation);
}

}  // namespace moonring::model
