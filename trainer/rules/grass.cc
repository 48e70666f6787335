#include "trainer/rules/grass.h"

#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "kernels/random/counter_random.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/projection.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

Projection GrassProjectionOf(const GrassOptions& options, const at::Tensor& weight) {
  return Projection(ProjectionType::kStd, options.rank, weight.sizes());
}

// Draws row numbers with replacement, and writes the states "rows" and "factors". `squares`: the
// squared norm of each row, fp64 [m].
void Draw(const GrassOptions& options, const std::string& name, int64_t number,
          const at::Tensor& squares, UpdateRule::State& state) {
  const at::Tensor &rows = state.at("rows"), &factors = state.at("factors");
  at::Tensor weights = squares.cpu();
  at::Tensor sums = weights.cumsum(0);
  if (!(sums[-1].item<double>() > 0.0)) {  // zero gradient: any row
    weights = at::ones_like(weights);
    sums = weights.cumsum(0);
  }
  const at::Tensor uniform =
      kernels::InitialUniform(static_cast<uint64_t>(options.seed),
                              absl::StrCat(name, "/projection/", number), rows.sizes())
          .to(at::kDouble);
  const at::Tensor drawn =
      at::searchsorted(sums, uniform * sums[-1], /*out_int32=*/false, /*right=*/true)
          .clamp_max_(weights.size(0) - 1);
  rows.copy_(drawn);
  factors.copy_(
      (weights.index_select(0, drawn) / sums[-1]).mul_(static_cast<double>(rows.size(0))).rsqrt_());
}

void Choose(const GrassOptions& options, const std::string& name, int64_t number,
            const at::Tensor& gradient, int64_t dim, UpdateRule::State& state) {
  const at::Tensor squares = gradient.square().sum({1 - dim}, /*keepdim=*/false, at::kDouble);
  if (options.sampling == GrassSampling::kMultinomial)
    return Draw(options, name, number, squares, state);
  const at::Tensor& rows = state.at("rows");
  rows.copy_(std::get<1>(at::sort(squares, /*stable=*/true, /*dim=*/0, /*descending=*/true))
                 .narrow(0, 0, rows.size(0)));
}

// Reshapes `factors` [r] so that a product with low [r, n] or [m, r] scales the dim of size r.
at::Tensor Along(const at::Tensor& factors, int64_t dim) { return factors.unsqueeze(1 - dim); }

}  // namespace

absl::StatusOr<NativeRule> GrassRule(const GrassOptions& options,
                                     const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("grass", options));
  const bool draws = options.sampling == GrassSampling::kMultinomial;
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter->name());
  MatrixRule rule;
  rule.state = [options, draws](size_t, const at::Tensor& weight) {
    const Projection projection = GrassProjectionOf(options, weight);
    UpdateRule::State state = AdamState(at::empty(projection.low_shape(), weight.options()));
    state["rows"] = at::zeros({projection.rank}, weight.options().dtype(at::kLong));
    if (draws) state["factors"] = at::zeros({projection.rank}, weight.options());
    return state;
  };
  rule.update = [options, draws, names](size_t index, const at::Tensor& weight,
                                        const at::Tensor& gradient, UpdateRule::State& state,
                                        double lr, int64_t step) {
    const int64_t dim = GrassProjectionOf(options, weight).low_dim();
    const int64_t number = (step - 1) / options.gap, since = (step - 1) % options.gap;
    if (since == 0) {
      Choose(options, names[index], number, gradient, dim, state);
      state.at("exp_avg").zero_();
      state.at("exp_avg_sq").zero_();
    }
    const at::Tensor& rows = state.at("rows");
    at::Tensor low = gradient.index_select(dim, rows);
    if (draws) low.mul_(Along(state.at("factors"), dim));
    at::Tensor update = AdamDirection(options.adam, low, state);
    if (draws) {
      // Repeated draws of a row give equal updates. Each is multiplied by the number of draws, so
      // that any of them writes their sum.
      const at::Tensor times = rows.unsqueeze(0).eq(rows.unsqueeze(1)).sum(0);
      update.mul_(Along(state.at("factors") * times, dim));
    }
    const double rate = lr * AdamCorrection(options.adam, since + 1) * options.alpha;
    weight.index_copy_(dim, rows, weight.index_select(dim, rows).sub_(update, rate));
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
