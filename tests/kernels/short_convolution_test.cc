#include "kernels/short_convolution.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

struct ConvolutionCase {
  std::vector<int64_t> lengths, halo_lengths;  // halo_lengths: empty for no halo
  int64_t taps = 4, channels = 20;
  bool bias = false, silu = false;
};

at::Tensor Documents(const ConvolutionCase& one) {
  Tensors rows = {at::zeros({2}, at::kLong)};
  for (size_t d = 0; d < one.lengths.size(); ++d)
    rows.push_back(rows.back() +
                   at::tensor({one.lengths[d], one.halo_lengths.empty() ? 0 : one.halo_lengths[d]},
                              at::kLong));
  return at::stack(rows);
}

ConvolutionTensors ConvolutionInputs(const ConvolutionCase& one, at::ScalarType dtype, Lies lies) {
  at::manual_seed(23);
  const at::Tensor documents = Documents(one);
  const int64_t tokens = documents[-1][0].item<int64_t>(), halo = documents[-1][1].item<int64_t>();
  const at::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return {RandomRows(tokens, one.channels, dtype, lies), at::randn({one.channels, one.taps}, wide),
          one.bias ? at::randn({one.channels}, wide) : at::Tensor(),
          halo > 0 ? at::randn({halo, one.channels}).to(dtype) : at::Tensor(), documents};
}

// Returns y, then the gradients of x, of the weight, and of bias and halo if they exist, computed
// by LibTorch's conv1d for each document in fp64.
Tensors WantedConvolution(const ConvolutionCase& one, const ConvolutionTensors& in,
                          const at::Tensor& dy) {
  const auto leaf = [](const at::Tensor& x) {
    return x.defined() ? x.detach().to(at::kDouble).clone().requires_grad_() : x;
  };
  const at::Tensor x = leaf(in.x_TC), weight = leaf(in.weight_CW), bias = leaf(in.bias_C),
                   halo = leaf(in.halo_RC);
  Tensors outs, leaves = {x, weight};
  for (const at::Tensor& more : {bias, halo})
    if (more.defined()) leaves.push_back(more);
  int64_t row = 0, halo_row = 0;
  for (size_t d = 0; d < one.lengths.size(); ++d) {
    const int64_t before = one.halo_lengths.empty() ? 0 : one.halo_lengths[d];
    Tensors rows = {at::zeros({one.taps - 1 - before, one.channels}, at::kDouble)};
    if (before > 0) rows.push_back(halo.narrow(0, halo_row, before));
    rows.push_back(x.narrow(0, row, one.lengths[d]));
    row += one.lengths[d];
    halo_row += before;
    if (one.lengths[d] == 0) continue;
    outs.push_back(at::conv1d(at::cat(rows).t().unsqueeze(0), weight.unsqueeze(1), bias,
                              at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1},
                              one.channels)[0]
                       .t());
  }
  const at::Tensor z = at::cat(outs), y = one.silu ? at::silu(z) : z;
  Tensors results = {y.detach()};
  for (at::Tensor& d : torch::autograd::grad({y}, leaves, {dy.to(at::kDouble)}))
    results.push_back(std::move(d));
  return results;
}

Tensors CallConvolution(const ConvolutionTensors& in, const at::Tensor& dy, bool silu) {
  Tensors results = {ShortConvolution(in, silu)};
  const ConvolutionGradients d = ShortConvolutionBackward(dy, in, silu);
  for (const at::Tensor& each : {d.x_TC, d.weight_CW, d.bias_C, d.halo_RC})
    if (each.defined()) results.push_back(each);
  return results;
}

std::vector<ConvolutionCase> ConvolutionCases() {
  return {{{37}, {}},
          {{100}, {}, 3, 24, true, true},
          {{65, 0, 1, 2, 64}, {}, 4, 20, true, true},
          {{5, 0, 1, 2, 64}, {2, 3, 0, 1, 0}, 4, 20, true, true},
          {{20, 7}, {3, 0}, 4, 20, false, true},
          {{1, 1, 1}, {3, 3, 3}},
          {{0, 0, 6, 6, 0}, {}, 2, 3, true},
          {{0, 3}, {2, 2}, 3, 1031, false, true}};
}

TEST(ShortConvolutionTest, IsConv1dsInFp64) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const std::vector<ConvolutionCase> cases = ConvolutionCases();
    for (size_t c = 0; c < cases.size(); ++c) {
      for (const Lies lies : kLies) {
        SCOPED_TRACE(::testing::Message()
                     << dtype << ", case " << c << ", lies " << static_cast<int>(lies));
        const ConvolutionTensors in = ConvolutionInputs(cases[c], dtype, lies);
        const at::Tensor dy = RandomRows(in.x_TC.size(0), cases[c].channels, dtype, lies);
        const Poison poison;
        const Tensors made = CallConvolution(in, dy, cases[c].silu),
                      wanted = WantedConvolution(cases[c], in, dy);
        ASSERT_EQ(made.size(), wanted.size());
        for (size_t i = 0; i < made.size(); ++i)
          EXPECT_TRUE(RelativeError(made[i], wanted[i], BoundOf(made[i].scalar_type()))) << i;
      }
    }
  }
}

// There are more tiles than partial sums, so one thread block processes several tiles in turn.
TEST(ShortConvolutionTest, MoreTilesThanBlocks) {
  const ConvolutionCase one{{9000}, {}, 4, 4, true, true};
  const ConvolutionTensors in = ConvolutionInputs(one, at::kFloat, Lies::kWhole);
  const at::Tensor dy = at::randn({9000, 4});
  const Tensors made = CallConvolution(in, dy, true), wanted = WantedConvolution(one, in, dy);
  for (size_t i = 0; i < made.size(); ++i)
    EXPECT_TRUE(RelativeError(made[i], wanted[i], 2e-6)) << i;
}

TEST(ShortConvolutionTest, AnyOrderOfThreadsAndNothing) {
  const ConvolutionCase one = ConvolutionCases()[3];
  const ConvolutionTensors in = ConvolutionInputs(one, at::kFloat, Lies::kWhole);
  const at::Tensor dy = at::randn(in.x_TC.sizes());
  const Tensors wanted = CallConvolution(in, dy, true);
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const Tensors made = CallConvolution(in, dy, true);
    for (size_t i = 0; i < made.size(); ++i) EXPECT_TRUE(BitEqual(made[i], wanted[i]));
  }
  const ConvolutionTensors none{
      at::empty({0, 8}), at::ones({8, 4}), {}, {}, at::zeros({2, 2}, at::kLong)};
  const Tensors made = CallConvolution(none, at::empty({0, 8}), true);
  EXPECT_EQ(made[0].sizes(), none.x_TC.sizes());
  EXPECT_TRUE(BitEqual(made[2].contiguous(), at::zeros({8, 4})));
}

TEST(ShortConvolutionTest, RefusesShapesAndDtypes) {
  const ConvolutionTensors in =
      ConvolutionInputs(ConvolutionCases()[3], at::kBFloat16, Lies::kWhole);
  const auto refuses = [&](const auto& change) {
    ConvolutionTensors tensors = in;
    change(tensors);
    EXPECT_THROW(ShortConvolution(tensors, true), c10::Error);
  };
  refuses([](ConvolutionTensors& t) { t.weight_CW = t.weight_CW.to(at::kBFloat16); });
  refuses([](ConvolutionTensors& t) { t.weight_CW = at::ones({20, 5}); });
  refuses([](ConvolutionTensors& t) { t.bias_C = at::ones({19}); });
  refuses([](ConvolutionTensors& t) { t.halo_RC = t.halo_RC.to(at::kFloat); });
  refuses([](ConvolutionTensors& t) { t.documents = t.documents.to(at::kInt); });
  EXPECT_FALSE(ShortConvolutionTakes(5));
}

}  // namespace
}  // namespace moonring::kernels
