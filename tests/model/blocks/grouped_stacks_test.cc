#include "model/blocks/grouped_stacks.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/products/gradient_sum.h"
#include "model/blocks/grouped_mlp.h"
#include "tests/testing/all_close.h"

namespace moonring::model {
namespace {

using ::moonring::testing::RelativeError;
using StackTensors = std::vector<at::Tensor>;

constexpr int64_t kStackHidden = 24, kStackInner = 16, kStackExperts = 5;

ExpertOffsets Offsets(const std::vector<int64_t>& counts) {
  ExpertOffsets begin = {0};
  for (const int64_t count : counts) begin.push_back(begin.back() + count);
  return begin;
}

RowsOfExperts Rows(const std::vector<int64_t>& counts) {
  const at::Tensor count_E = at::tensor(counts, at::kLong);
  return {at::repeat_interleave(count_E), count_E.cumsum(0, at::kInt)};
}

struct StackedLayer {
  ExpertRule rule;
  Activation activation = Activation::kSilu;
  at::Tensor gate_up, down, gate_up_bias, down_bias;

  // Returns x, the weights and the existing biases as autograd leaves in `dtype`.
  StackTensors Leaves(const at::Tensor& x, at::ScalarType dtype) const {
    StackTensors leaves;
    for (const at::Tensor& each : {x, gate_up, down, gate_up_bias, down_bias}) {
      if (each.defined()) leaves.push_back(each.to(dtype).detach().requires_grad_());
    }
    return leaves;
  }
};

StackedLayer RandomLayer(ExpertStorage storage, bool clamped, Activation activation) {
  const auto random = [](at::IntArrayRef sizes) {
    return at::randn(sizes, at::kDouble).mul_(0.5).to(at::kBFloat16);
  };
  StackedLayer layer;
  layer.activation = activation;
  layer.rule = {
      .count = kStackExperts, .chosen = 2, .intermediate = kStackInner, .storage = storage};
  layer.gate_up = random({kStackExperts, 2 * kStackInner, kStackHidden});
  layer.down = random({kStackExperts, kStackHidden, kStackInner});
  if (IsTransposed(storage)) {
    layer.gate_up = layer.gate_up.transpose(1, 2).contiguous();
    layer.down = layer.down.transpose(1, 2).contiguous();
  }
  if (clamped) {
    layer.rule.bias = true;
    layer.rule.clamped = {.limit = 1.5, .slope = 1.702};
    layer.gate_up_bias = random({kStackExperts, 2 * kStackInner});
    layer.down_bias = random({kStackExperts, kStackHidden});
  }
  return layer;
}

// Returns the result and the gradients of all leaves.
StackTensors Made(const StackedLayer& layer, const std::vector<int64_t>& counts,
                  const StackTensors& leaves, const at::Tensor& dy, bool grouped) {
  Projection gate_up, down;
  gate_up.weight_OI = leaves[1];
  down.weight_OI = leaves[2];
  if (leaves.size() > 3) {
    gate_up.bias_O = leaves[3];
    down.bias_O = leaves[4];
  }
  const at::Tensor y =
      grouped ? GroupedStacks(leaves[0], Rows(counts), layer.rule, layer.activation, gate_up, down)
              : StackedMlp(leaves[0], Offsets(counts), layer.rule, layer.activation, gate_up, down);
  StackTensors made = torch::autograd::grad({y}, leaves, {dy.to(y.scalar_type())});
  made.insert(made.begin(), y.detach());
  return made;
}

// Numbers of rows per expert: some experts without rows; all rows for one expert; no rows; one row.
const std::vector<std::vector<int64_t>> kCounts = {
    {3, 0, 7, 1, 0}, {4, 4, 4, 4, 4}, {13, 0, 0, 0, 0}, {0, 0, 0, 0, 13},
    {0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 41, 2, 30}};

class GroupedStacksTest : public ::testing::TestWithParam<ExpertStorage> {
 protected:
  GroupedStacksTest() { at::manual_seed(3); }

  template <typename Body>
  void ForLayers(const Body& body) const {
    for (const bool clamped : {false, true}) {
      for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
        const StackedLayer layer = RandomLayer(GetParam(), clamped, activation);
        for (const std::vector<int64_t>& counts : kCounts) {
          SCOPED_TRACE(::testing::Message()
                       << "clamped " << clamped << ", rows " << ::testing::PrintToString(counts));
          const int64_t rows = Offsets(counts).back();
          body(layer, counts, at::randn({rows, kStackHidden}).to(at::kBFloat16),
               at::randn({rows, kStackHidden}).to(at::kBFloat16));
        }
      }
    }
  }
};

TEST_P(GroupedStacksTest, IsStackedMlp) {
  ForLayers([&](const StackedLayer& layer, const std::vector<int64_t>& counts, const at::Tensor& x,
                const at::Tensor& dy) {
    const StackTensors wanted = Made(layer, counts, layer.Leaves(x, at::kFloat), dy, false),
                       made = Made(layer, counts, layer.Leaves(x, at::kFloat), dy, true);
    ASSERT_EQ(made.size(), wanted.size());
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].sizes(), wanted[i].sizes());
      EXPECT_TRUE(RelativeError(made[i], wanted[i], 1e-6)) << i;
    }
  });
}

// In bf16 the distance from fp64 is at most twice that of one product per expert.
TEST_P(GroupedStacksTest, RoundsNoMoreInBf16) {
  ForLayers([&](const StackedLayer& layer, const std::vector<int64_t>& counts, const at::Tensor& x,
                const at::Tensor& dy) {
    const StackTensors exact = Made(layer, counts, layer.Leaves(x, at::kDouble), dy, false),
                       today = Made(layer, counts, layer.Leaves(x, at::kBFloat16), dy, false),
                       made = Made(layer, counts, layer.Leaves(x, at::kBFloat16), dy, true);
    for (size_t i = 0; i < made.size(); ++i) {
      const auto error = [&](const at::Tensor& of) {
        return (of.to(at::kDouble) - exact[i]).norm().item<double>();
      };
      EXPECT_EQ(made[i].scalar_type(), at::kBFloat16);
      EXPECT_LE(error(made[i]), 2 * error(today[i])) << i;
      EXPECT_TRUE(RelativeError(made[i], today[i], 1e-2)) << i;
    }
  });
}

// Gradients are summed in fp32 over two runs; none goes through autograd.
TEST_P(GroupedStacksTest, GradientsAreAddedUp) {
  const StackedLayer layer = RandomLayer(GetParam(), false, Activation::kSilu);
  const StackTensors leaves = layer.Leaves(at::empty({0, kStackHidden}), at::kBFloat16);
  Projection gate_up, down;
  gate_up.weight_OI = leaves[1];
  down.weight_OI = leaves[2];
  gate_up.sum = std::make_shared<kernels::GradientSum>(at::kFloat);
  down.sum = std::make_shared<kernels::GradientSum>(at::kFloat);
  StackTensors wanted(2);
  for (const size_t run : {0, 1}) {
    const std::vector<int64_t>& counts = kCounts[run];
    const int64_t rows = Offsets(counts).back();
    const at::Tensor x = at::randn({rows, kStackHidden}).to(at::kBFloat16),
                     dy = at::randn({rows, kStackHidden}).to(at::kBFloat16);
    const StackTensors exact = Made(layer, counts, layer.Leaves(x, at::kDouble), dy, false);
    for (size_t i = 0; i < 2; ++i)
      wanted[i] = wanted[i].defined() ? wanted[i] + exact[2 + i] : exact[2 + i];
    const at::Tensor y =
        GroupedStacks(x, Rows(counts), layer.rule, layer.activation, gate_up, down);
    for (const at::Tensor& none :
         torch::autograd::grad({y}, {leaves[1], leaves[2]}, {dy}, std::nullopt, false, true))
      EXPECT_FALSE(none.defined());
  }
  EXPECT_TRUE(RelativeError(gate_up.sum->Take().to(at::kDouble), wanted[0], 1e-2));
  EXPECT_TRUE(RelativeError(down.sum->Take().to(at::kDouble), wanted[1], 1e-2));
}

INSTANTIATE_TEST_SUITE_P(, GroupedStacksTest,
                         ::testing::Values(ExpertStorage::kStacked, ExpertStorage::kTransposed,
                                           ExpertStorage::kTransposedHalves));

}  // namespace
}  // namespace moonring::model
