#include "tests/mixers/mixing_problem.h"

#include <cmath>
#include <numeric>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/short_convolution.h"

namespace moonring::testing {
namespace {

// Computes convolution and rule of whole documents, token by token.
class TokenMixing : public mixers::PlannedMixing {
 public:
  explicit TokenMixing(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}
  at::Tensor Delta(const mixers::DeltaCall& call) override {
    const at::Tensor qkv = call.taps_CW.defined() ? mixers::ShortConvolution(
                                                        {call.x_TC, call.taps_CW, call.bias_C, {}},
                                                        lengths_, {.silu = true})
                                                  : call.x_TC;
    const mixers::DeltaInputs inputs = mixers::InputsOf(call, qkv);
    const at::Tensor out = mixers::DeltaRecurrence(inputs, lengths_, call.options).out_THV;
    return call.skip_H.defined() ? out + call.skip_H.view({-1, 1}) * inputs.v_THV : out;
  }
  at::Tensor Convolve(const mixers::ConvolutionCall& call) override {
    return mixers::ShortConvolution({call.x_TC, call.taps_CW, call.bias_C, {}}, lengths_,
                                    {.silu = call.silu});
  }

 private:
  std::vector<int64_t> lengths_;
};

}  // namespace

MixingTensors MakeMixingTensors(const MixingProblem& problem) {
  at::manual_seed(5);
  const int64_t tokens =
      std::accumulate(problem.lengths.begin(), problem.lengths.end(), int64_t{0});
  const auto options = at::TensorOptions(at::kDouble);
  MixingTensors made;
  made.x = at::randn({tokens, problem.channels()}, options);
  std::vector<int64_t> shape = {tokens, problem.heads};
  if (problem.by_channel) shape.push_back(problem.keys);
  // The decay is slow, so that much of a state remains after hundreds of tokens.
  made.g = at::rand(shape, options) * -0.02;
  made.beta = at::rand({tokens, problem.heads}, options);
  if (problem.taps > 0) made.taps = at::randn({problem.channels(), problem.taps}, options);
  if (!problem.rule || problem.state_space) made.bias = at::randn({problem.channels()}, options);
  if (problem.state_space) made.skip = at::randn({problem.heads}, options);
  made.d_out = problem.rule ? at::randn({tokens, problem.heads, problem.values}, options)
                            : at::randn({tokens, problem.channels()}, options);
  return made;
}

MixingTensors RowsOf(const MixingTensors& stream, const at::Tensor& places) {
  const auto rows = [&](const at::Tensor& x) { return x.index_select(0, places); };
  return {rows(stream.x), rows(stream.g), rows(stream.beta), stream.taps,
          stream.bias,    stream.skip,    rows(stream.d_out)};
}

at::Tensor FeedRows(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                    const MixingTensors& rows, int64_t layer) {
  if (!problem.rule) return mixing.Convolve({rows.x, rows.taps, rows.bias, /*silu=*/true, layer});
  return mixing.Delta({.x_TC = rows.x,
                       .taps_CW = rows.taps,
                       .bias_C = rows.bias,
                       .g = rows.g,
                       .beta_TH = rows.beta,
                       .skip_H = rows.skip,
                       .key_heads = problem.key_heads,
                       .value_heads = problem.heads,
                       .key_dim = problem.keys,
                       .value_dim = problem.values,
                       .options = {.scale = 0.37, .normalize = true, .delta = !problem.state_space},
                       .layer = layer});
}

std::vector<NamedTensor> RunMixing(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                                   const MixingTensors& rows, at::ScalarType dtype) {
  const at::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto leaf = [](const at::Tensor& t, at::ScalarType type) {
    return t.defined() ? t.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_()
                       : t;
  };
  const at::Tensor x = leaf(rows.x, dtype), taps = leaf(rows.taps, dtype),
                   bias = leaf(rows.bias, dtype), g = leaf(rows.g, wide),
                   beta = leaf(rows.beta, wide), skip = leaf(rows.skip, wide);
  const at::Tensor out = FeedRows(mixing, problem, {x, g, beta, taps, bias, skip, {}});
  std::vector<NamedTensor> tensors = {{"out", out.detach()}};
  std::vector<NamedTensor> leaves = {{"x", x}};
  if (problem.rule) leaves.push_back({"g", g}), leaves.push_back({"beta", beta});
  if (taps.defined()) leaves.push_back({"taps", taps});
  if (bias.defined()) leaves.push_back({"bias", bias});
  if (skip.defined()) leaves.push_back({"skip", skip});
  base::Tensors wanted;
  for (const NamedTensor& named : leaves) wanted.push_back(named.tensor);
  const base::Tensors made = base::Differentiate({out}, wanted, {rows.d_out.to(dtype)});
  for (size_t i = 0; i < made.size(); ++i)
    tensors.push_back(
        {leaves[i].name, made[i].defined() ? made[i] : at::zeros_like(leaves[i].tensor)});
  return tensors;
}

std::vector<NamedTensor> RunByTokens(const MixingProblem& problem, const MixingTensors& stream) {
  TokenMixing mixing(problem.lengths);
  return RunMixing(mixing, problem, stream, at::kDouble);
}

MixingTensors CutTensors(const MixingTensors& stream, const comm::Layout& layout, int rank) {
  return {layout.Cut(stream.x, rank),
          layout.Cut(stream.g, rank),
          layout.Cut(stream.beta, rank),
          stream.taps,
          stream.bias,
          stream.skip,
          layout.Cut(stream.d_out, rank)};
}

bool IsOfRows(const NamedTensor& named) {
  return named.name != "taps" && named.name != "bias" && named.name != "skip";
}

}  // namespace moonring::testing
