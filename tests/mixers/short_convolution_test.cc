// The short convolution compared with LibTorch's conv1d, document by document; fp64, 1e-12, since
// few terms are added.
#include "mixers/rule/short_convolution.h"

#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::RelativeError;

at::Tensor ByConv1d(const ShortConvolutionInputs& inputs, const std::vector<int64_t>& lengths,
                    const ShortConvolutionOptions& options) {
  const int64_t channels = inputs.weight_CW.size(0), taps = inputs.weight_CW.size(1);
  base::Tensors outs;
  int64_t row = 0, halo_row = 0;
  for (size_t d = 0; d < lengths.size(); ++d) {
    const int64_t before = options.halo_lengths.empty() ? 0 : options.halo_lengths[d];
    base::Tensors rows = {at::zeros({taps - 1 - before, channels}, inputs.x_TC.options())};
    if (before > 0) rows.push_back(inputs.halo_RC.narrow(0, halo_row, before));
    rows.push_back(inputs.x_TC.narrow(0, row, lengths[d]));
    row += lengths[d];
    halo_row += before;
    if (lengths[d] == 0) continue;
    const at::Tensor z =
        at::conv1d(at::cat(rows).t().unsqueeze(0), inputs.weight_CW.unsqueeze(1), inputs.bias_C,
                   at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1}, channels);
    outs.push_back(z[0].t());
  }
  const at::Tensor z = outs.empty() ? inputs.x_TC.clone() : at::cat(outs);
  return options.silu ? at::silu(z) : z;
}

struct Case {
  std::vector<int64_t> lengths, halo_lengths;
  int64_t taps = 4;
  bool bias = false, silu = false;
};

TEST(ShortConvolutionTest, IsConv1dOfEachDocumentWithItsGradients) {
  const std::vector<Case> cases = {
      {{37}, {}},
      {{37}, {}, 3, true, true},
      {{5, 0, 1, 2, 64}, {}, 4, true, true},
      {{5, 0, 1, 2, 64}, {2, 3, 0, 1, 0}, 4, true, true},
      {{20, 7}, {3, 0}, 4, false, true},
      {{1, 1, 1}, {3, 3, 3}},
      {{0}, {}, 4, true, true},
      {{6, 6}, {}, 1, true},
      {{0, 3}, {2, 2}, 3},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    const Case& one = cases[c];
    at::manual_seed(3);
    int64_t tokens = 0, halo = 0;
    for (const int64_t length : one.lengths) tokens += length;
    for (const int64_t length : one.halo_lengths) halo += length;
    const auto leaf = [](at::IntArrayRef shape) {
      return at::randn(shape, at::kDouble).requires_grad_();
    };
    ShortConvolutionInputs inputs{leaf({tokens, 10}), leaf({10, one.taps}), {}, {}};
    base::Tensors leaves = {inputs.x_TC, inputs.weight_CW};
    if (one.bias) leaves.push_back(inputs.bias_C = leaf({10}));
    if (halo > 0) leaves.push_back(inputs.halo_RC = leaf({halo, 10}));
    const ShortConvolutionOptions options{one.silu, one.halo_lengths};
    const at::Tensor out = ShortConvolution(inputs, one.lengths, options);
    const at::Tensor expected = ByConv1d(inputs, one.lengths, options);
    EXPECT_TRUE(RelativeError(out, expected, 1e-12)) << c;
    if (tokens == 0) continue;
    const at::Tensor gradient = at::randn_like(out);
    const base::Tensors made = base::Differentiate({out}, leaves, {gradient});
    const base::Tensors wanted = base::Differentiate({expected}, leaves, {gradient});
    for (size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i], wanted[i], 1e-12)) << c << ", input " << i;
  }
}

// A stream over two ranks equals the whole stream: the second rank has a halo of three rows, and
// returns their gradient.
TEST(ShortConvolutionTest, TwoPartsWithAHaloAreTheWhole) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({30, 6}, at::kDouble).requires_grad_();
  const at::Tensor weight = at::randn({6, 4}, at::kDouble);
  const at::Tensor gradient = at::randn({30, 6}, at::kDouble);
  const at::Tensor whole = ShortConvolution({x, weight, {}, {}}, {10, 20}, {.silu = true});
  const at::Tensor expected = base::Differentiate({whole}, {x}, {gradient})[0];

  const at::Tensor first_x = x.detach().narrow(0, 0, 17).requires_grad_();
  const at::Tensor second_x = x.detach().narrow(0, 17, 13).requires_grad_();
  const at::Tensor halo = x.detach().narrow(0, 14, 3).requires_grad_();
  const at::Tensor first = ShortConvolution({first_x, weight, {}, {}}, {10, 7}, {.silu = true});
  const at::Tensor second =
      ShortConvolution({second_x, weight, {}, halo}, {13}, {.silu = true, .halo_lengths = {3}});
  EXPECT_TRUE(RelativeError(at::cat({first, second}), whole, 1e-12));
  at::Tensor d_first = base::Differentiate({first}, {first_x}, {gradient.narrow(0, 0, 17)})[0];
  const base::Tensors d_second =
      base::Differentiate({second}, {second_x, halo}, {gradient.narrow(0, 17, 13)});
  d_first.narrow(0, 14, 3).add_(d_second[1]);
  EXPECT_TRUE(RelativeError(at::cat({d_first, d_second[0]}), expected, 1e-12));
}

TEST(ShortConvolutionTest, RefusesAHaloThatIsTooLong) {
  const at::Tensor x = at::zeros({3, 2}), weight = at::zeros({2, 4}), halo = at::zeros({4, 2});
  EXPECT_THROW(ShortConvolution({x, weight, {}, halo}, {3}, {.halo_lengths = {4}}), c10::Error);
  EXPECT_THROW(ShortConvolution({x, weight, {}, {}}, {3}, {.halo_lengths = {2}}), c10::Error);
  EXPECT_THROW(ShortConvolution({x, weight, {}, {}}, {2}), c10::Error);
}

}  // namespace
}  // namespace moonring::mixers
