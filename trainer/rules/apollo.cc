#include "trainer/rules/apollo.h"

#include <cmath>
#include <numbers>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "kernels/random/counter_random.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/norm_growth.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

constexpr double kApolloEpsilon = 1e-8;

// Normal random numbers of variance 1 / rank, fp64 on the host, by the Box-Muller method from two
// uniform numbers each.
at::Tensor NormalNumbers(uint64_t seed, const std::string& name, int64_t number,
                         at::IntArrayRef shape, int64_t rank) {
  const at::Tensor uniform =
      kernels::InitialUniform(seed, absl::StrCat(name, "/projection/", number),
                              {2, c10::multiply_integers(shape)})
          .to(at::kDouble);
  const at::Tensor radius = (1.0 - uniform[0]).log_().mul_(-2.0).sqrt_();
  return (radius * (uniform[1] * (2.0 * std::numbers::pi)).cos_())
      .div_(std::sqrt(static_cast<double>(rank)))
      .reshape(shape);
}

Projection ApolloProjectionOf(const ApolloOptions& options, const at::Tensor& weight) {
  return Projection(options.type, options.rank, weight.sizes(),
                    /*clamped=*/options.source == ApolloSource::kSvd);
}

void Renew(const ApolloOptions& options, const Projection& projection, const std::string& name,
           const at::Tensor& gradient, int64_t number, UpdateRule::State& state) {
  if (options.source == ApolloSource::kSvd) return projection.FromSvd(gradient, state);
  const at::Tensor& side = state.at(projection.left ? "left" : "right");
  side.copy_(options.draw != nullptr ? options.draw(name, number, side.sizes())
                                     : NormalNumbers(static_cast<uint64_t>(options.seed), name,
                                                     number, side.sizes(), projection.rank));
}

// The factor by which the gradient G is scaled: the norm of Adam's direction divided by the norm of
// `low`, the gradient in the low-rank space. One number, or one per channel (row or column of G),
// in a shape that broadcasts with G.
at::Tensor Factor(const ApolloOptions& options, const Projection& projection,
                  const at::Tensor& direction, const at::Tensor& low) {
  if (options.scale_by == ApolloScale::kTensor)
    return at::linalg_vector_norm(direction) / (at::linalg_vector_norm(low) + kApolloEpsilon);
  const int64_t dim = projection.low_dim();
  return at::linalg_vector_norm(direction, 2, dim, /*keepdim=*/true) /
         (at::linalg_vector_norm(low, 2, dim, /*keepdim=*/true) + kApolloEpsilon);
}

}  // namespace

absl::StatusOr<NativeRule> ApolloRule(const ApolloOptions& options,
                                      const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("apollo", options));
  if (options.type == ProjectionType::kReverseStd || options.type == ProjectionType::kFull)
    return absl::InvalidArgumentError("trainer.apollo: type: expected std, left or right");
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter->name());
  MatrixRule rule;
  rule.state = [options](size_t, const at::Tensor& weight) {
    const Projection projection = ApolloProjectionOf(options, weight);
    UpdateRule::State state = AdamState(at::empty(projection.low_shape(), weight.options()));
    projection.AddTo(state, weight);
    state["norm"] = at::zeros({}, weight.options());
    return state;
  };
  rule.update = [options, names](size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                                 UpdateRule::State& state, double lr, int64_t step) {
    const Projection projection = ApolloProjectionOf(options, weight);
    if ((step - 1) % options.gap == 0) {
      Renew(options, projection, names[index], gradient, (step - 1) / options.gap, state);
    }
    const at::Tensor low = projection.Down(state, gradient);
    const at::Tensor direction = AdamDirection(options.adam, low, state);
    const double root = std::sqrt(options.scale);
    at::Tensor update = gradient * Factor(options, projection, direction, low);
    if (options.scale_front) update.mul_(root);
    update = LimitNormGrowth(update, state.at("norm"), /*first=*/step == 1);
    weight.sub_(update,
                lr * AdamCorrection(options.adam, step) * (options.scale_front ? 1.0 : root));
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
