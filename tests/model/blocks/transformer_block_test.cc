#include "model/blocks/transformer_block.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/mixers/mixers.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;

constexpr int64_t kHeads = 6, kKvHeads = 2, kHeadDim = 4, kBlockHidden = 20, kBlockInner = 28;
constexpr double kEps = 1e-5, kTheta = 100.0;
const std::vector<int64_t> kLengths = {7, 1, 5};

std::vector<int64_t> ShapeOf(int place) {
  switch (place) {
    case kInputNorm:
    case kMlpInputNorm:
    case kOutputBias:
    case kDownBias:
      return {kBlockHidden};
    case kQuery:
      return {kHeads * kHeadDim, kBlockHidden};
    case kKey:
    case kValue:
      return {kKvHeads * kHeadDim, kBlockHidden};
    case kOutput:
      return {kBlockHidden, kHeads * kHeadDim};
    case kGate:
    case kUp:
      return {kBlockInner, kBlockHidden};
    case kDown:
      return {kBlockHidden, kBlockInner};
    case kQueryBias:
      return {kHeads * kHeadDim};
    case kKeyBias:
    case kValueBias:
      return {kKvHeads * kHeadDim};
    default:
      return {kBlockInner};
  }
}

bool IsLlamas(int place) {
  return place == kInputNorm || place == kQuery || place == kKey || place == kValue ||
         place == kOutput || place == kMlpInputNorm || place == kGate || place == kUp ||
         place == kDown;
}

struct BlockCase {
  at::Tensor hidden, positions;
  std::vector<at::Tensor> weights;

  BlockCase In(at::ScalarType dtype) const {
    BlockCase inputs{hidden.to(WideDtype(dtype)).requires_grad_(), positions, {}};
    for (int place = 0; place < kBlockWeights; ++place) {
      const at::Tensor& weight = weights[place];
      inputs.weights.push_back(
          weight.defined()
              ? weight.to(WeightDtype(place, dtype), false, /*copy=*/true).requires_grad_()
              : weight);
    }
    return inputs;
  }
};

BlockCase RandomInputs(bool bias, const std::vector<int64_t>& lengths) {
  at::manual_seed(11);
  BlockCase inputs;
  std::vector<at::Tensor> positions = {at::empty({0}, at::kLong)};
  for (const int64_t length : lengths) positions.push_back(at::arange(length, at::kLong));
  inputs.positions = at::cat(positions);
  inputs.hidden = at::randn({inputs.positions.size(0), kBlockHidden}, at::kDouble);
  for (int place = 0; place < kBlockWeights; ++place) {
    const bool there = IsBias(place) ? bias && IsLlamas(MapOfBias(place)) : IsLlamas(place);
    inputs.weights.push_back(there ? at::randn(ShapeOf(place), at::kDouble) * 0.3 +
                                         (IsNorm(place) ? 1.0 : 0.0)
                                   : at::Tensor());
  }
  return inputs;
}

at::Tensor Block(const BlockCase& inputs, const std::vector<int64_t>& lengths, at::ScalarType dtype,
                 const Mixer* mixer = &kSoftmaxAttention, bool mlp = true,
                 const BlockRun& run = BlockRun()) {
  MaskedAttention attention(lengths);
  BlockRule rule{.mixer = mixer,
                 .mlp = mlp,
                 .heads = kHeads,
                 .kv_heads = kKvHeads,
                 .head_dim = kHeadDim,
                 .rms_norm_eps = kEps,
                 .matmul_dtype = dtype};
  rule.scores.scale = 1 / std::sqrt(double{kHeadDim});
  const Rotary rotary = MakeRotary({.theta = kTheta, .dim = kHeadDim}, inputs.positions,
                                   at::Tensor(), WideDtype(dtype));
  return TransformerBlock(rule, BlockMaps(inputs.weights), inputs.hidden, {&rotary, {}}, attention,
                          run)
      .hidden_TD;
}

// The block computed from its equations in plain operators: rotary embedding as complex numbers,
// attention for one document and one head at a time.
at::Tensor BlockNorm(const at::Tensor& x, const at::Tensor& w) {
  return w * x / (x.pow(2).mean(1, true) + kEps).sqrt();
}

at::Tensor TurnHalves(const at::Tensor& x, const at::Tensor& positions) {
  const at::Tensor angle =
      positions.to(at::kDouble).unsqueeze(1) *
      at::pow(kTheta, at::arange(0, kHeadDim, 2, at::kDouble) * (-1.0 / kHeadDim));
  const at::Tensor turned =
      at::complex(x.narrow(1, 0, kHeadDim / 2), x.narrow(1, kHeadDim / 2, kHeadDim / 2)) *
      at::polar(at::ones_like(angle), angle);
  return at::cat({at::real(turned), at::imag(turned)}, 1);
}

at::Tensor LinearOf(const BlockCase& in, const at::Tensor& x, int weight, int bias) {
  const at::Tensor y = at::matmul(x, in.weights[weight].t());
  return in.weights[bias].defined() ? y + in.weights[bias] : y;
}

// Returns the hidden states after attention.
at::Tensor MixerByItsEquations(const BlockCase& in, const std::vector<int64_t>& lengths) {
  const auto& w = in.weights;
  const auto linear = [&](const at::Tensor& x, int weight, int bias) {
    return LinearOf(in, x, weight, bias);
  };
  const at::Tensor n = BlockNorm(in.hidden, w[kInputNorm]);
  const at::Tensor q = linear(n, kQuery, kQueryBias), k = linear(n, kKey, kKeyBias),
                   v = linear(n, kValue, kValueBias);
  std::vector<at::Tensor> documents;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    std::vector<at::Tensor> heads;
    for (int64_t head = 0; head < kHeads; ++head) {
      const auto part = [&](const at::Tensor& x, int64_t h) {
        return x.narrow(0, begin, length).narrow(1, h * kHeadDim, kHeadDim);
      };
      const at::Tensor positions = in.positions.narrow(0, begin, length);
      const int64_t shared = head / (kHeads / kKvHeads);
      const at::Tensor scores = at::matmul(TurnHalves(part(q, head), positions),
                                           TurnHalves(part(k, shared), positions).t()) /
                                std::sqrt(double{kHeadDim});
      const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
      heads.push_back(at::matmul(scores.masked_fill(future, -1e30).softmax(1), part(v, shared)));
    }
    documents.push_back(at::cat(heads, 1));
    begin += length;
  }
  return in.hidden + linear(at::cat(documents), kOutput, kOutputBias);
}

at::Tensor MlpByItsEquations(const BlockCase& in, const at::Tensor& h) {
  const at::Tensor m = BlockNorm(h, in.weights[kMlpInputNorm]),
                   gate = LinearOf(in, m, kGate, kGateBias);
  const at::Tensor product = gate * gate.sigmoid() * LinearOf(in, m, kUp, kUpBias);
  return h + LinearOf(in, product, kDown, kDownBias);
}

at::Tensor BlockByItsEquations(const BlockCase& in, const std::vector<int64_t>& lengths) {
  return MlpByItsEquations(in, MixerByItsEquations(in, lengths));
}

std::vector<at::Tensor> Gradients(const at::Tensor& output, const BlockCase& inputs) {
  std::vector<at::Tensor> leaves = {inputs.hidden};
  for (const at::Tensor& weight : inputs.weights) {
    if (weight.defined()) leaves.push_back(weight);
  }
  at::manual_seed(12);
  return torch::autograd::grad({output}, leaves,
                               {at::randn(output.sizes(), at::kDouble).to(output.scalar_type())});
}

class TransformerBlockTest : public ::testing::TestWithParam<bool> {};

TEST_P(TransformerBlockTest, IsItsEquations) {
  const BlockCase whole = RandomInputs(GetParam(), kLengths), exact = whole.In(at::kDouble);
  const at::Tensor wanted = BlockByItsEquations(exact, kLengths);
  const auto wanted_gradients = Gradients(wanted, exact);
  struct Precision {
    at::ScalarType dtype;
    double output, gradients;
  };
  // Bounds. fp64: the same sums in another order. fp32: some hundred roundings of 6e-8. bf16:
  // matmuls with errors of 4e-3, with hidden states in fp32.
  for (const Precision& p :
       {Precision{at::kDouble, 1e-14, 1e-13}, Precision{at::kFloat, 1e-6, 5e-6},
        Precision{at::kBFloat16, 1e-2, 3e-2}}) {
    SCOPED_TRACE(p.dtype);
    const BlockCase inputs = whole.In(p.dtype);
    const at::Tensor output = Block(inputs, kLengths, p.dtype);
    EXPECT_EQ(output.scalar_type(), WideDtype(p.dtype));
    EXPECT_TRUE(RelativeError(output, wanted, p.output));
    const auto gradients = Gradients(output, inputs);
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(RelativeError(gradients[i], wanted_gradients[i], p.gradients))
          << "gradient " << i;
    }
  }
}

// A layer that is only half of a block (attention or feed-forward), whole and in tiles of rows. The
// other half has no weights.
TEST_P(TransformerBlockTest, AHalfIsItsEquations) {
  const BlockCase whole = RandomInputs(GetParam(), kLengths);
  for (const bool mlp : {false, true}) {
    BlockCase half = whole;
    for (int place = 0; place < kBlockWeights; ++place) {
      const int map = IsBias(place) ? MapOfBias(place) : place;
      const bool of_mlp = map == kMlpInputNorm || map == kGate || map == kUp || map == kDown;
      if (of_mlp != mlp) half.weights[place] = at::Tensor();
    }
    half = half.In(at::kDouble);
    const at::Tensor wanted =
        mlp ? MlpByItsEquations(half, half.hidden) : MixerByItsEquations(half, kLengths);
    const auto wanted_gradients = Gradients(wanted, half);
    for (const int64_t tile_bytes : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << "mlp " << mlp << ", tile_bytes " << tile_bytes);
      const at::Tensor output =
          Block(half, kLengths, at::kDouble, mlp ? nullptr : &kSoftmaxAttention, mlp,
                {.tile_bytes = tile_bytes, .tile_rows = 4});
      EXPECT_TRUE(RelativeError(output, wanted, 1e-14));
      const auto gradients = Gradients(output, half);
      for (size_t i = 0; i < gradients.size(); ++i)
        EXPECT_TRUE(RelativeError(gradients[i], wanted_gradients[i], 1e-13)) << "gradient " << i;
    }
  }
}

TEST_P(TransformerBlockTest, NoRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const BlockCase inputs = RandomInputs(GetParam(), {}).In(dtype);
    const at::Tensor output = Block(inputs, {}, dtype);
    EXPECT_EQ(output.sizes(), at::IntArrayRef({0, kBlockHidden}));
    const auto gradients = Gradients(output, inputs);
    for (const at::Tensor& gradient : gradients)
      EXPECT_EQ(gradient.abs().sum().item<double>(), 0.0);
  }
}

// Documents of a stream do not affect each other, and only differences of positions matter.
TEST_P(TransformerBlockTest, DocumentsStandAlone) {
  const BlockCase inputs = RandomInputs(GetParam(), kLengths);
  const at::Tensor together = Block(inputs, kLengths, at::kDouble);
  BlockCase last = inputs;
  last.hidden = inputs.hidden.narrow(0, 8, 5);
  last.positions = inputs.positions.narrow(0, 8, 5) + 3;
  EXPECT_TRUE(RelativeError(Block(last, {5}, at::kDouble), together.narrow(0, 8, 5), 1e-13));
}

INSTANTIATE_TEST_SUITE_P(Biases, TransformerBlockTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Bias" : "NoBias"; });

}  // namespace
}  // namespace moonring::model
