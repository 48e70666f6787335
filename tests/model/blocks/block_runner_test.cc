#include "model/blocks/block_runner.h"

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/status/torch_status.h"
#include "model/blocks/layers.h"
#include "tests/testing/all_close.h"
#include "tests/testing/live_bytes.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::RelativeError;

constexpr int64_t kWidth = 6;

at::Tensor RandomTensor(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::kDouble).to(dtype);
}

std::shared_ptr<base::Parameter> RandomParameter(at::IntArrayRef sizes,
                                                 at::ScalarType dtype = at::kDouble,
                                                 bool trainable = true) {
  return std::make_shared<base::Parameter>("w", RandomTensor(sizes, dtype), trainable);
}

at::Tensor Toy(absl::Span<const at::Tensor> weights, const at::Tensor& hidden) {
  at::Tensor result = hidden + at::linear(hidden, weights[0]).tanh();
  return weights[1].defined() ? result + weights[1] : result;
}

std::vector<at::Tensor> ToyBlock(absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun&) {
  const at::Tensor& hidden = inputs.hidden;
  return {Toy(weights, hidden)};
}

// Returns the gradients of Toy computed by plain autograd.
std::vector<at::Tensor> ToyGradients(const std::vector<at::Tensor>& weights,
                                     const at::Tensor& hidden, const at::Tensor& gradient) {
  const at::Tensor leaf = hidden.detach().requires_grad_();
  std::vector<at::Tensor> leaves = {weights[0].detach().requires_grad_(),
                                    weights[1].detach().requires_grad_()};
  return torch::autograd::grad({Toy(leaves, leaf)}, {leaf, leaves[0], leaves[1]}, {gradient});
}

class BlockRunnerTest : public ::testing::TestWithParam<Recompute> {
 protected:
  BlockRunnerTest() { at::manual_seed(3); }

  // Returns Toy as a block function that counts its calls.
  BlockFunction Counted() {
    return [this](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                  const BlockRun&) -> std::vector<at::Tensor> {
      const at::Tensor& hidden = inputs.hidden;
      ++runs_;
      return {Toy(weights, hidden)};
    };
  }
  at::Tensor Run(const at::Tensor& hidden) {
    return RunBlock(Counted(), {{w_, at::kDouble}, {b_, at::kDouble}}, {hidden}, {GetParam()})[0];
  }
  int Again() const { return GetParam() == Recompute::kNone ? 0 : 1; }

  std::shared_ptr<base::Parameter> w_ = RandomParameter({kWidth, kWidth}),
                                   b_ = RandomParameter({kWidth});
  int runs_ = 0;
};

TEST_P(BlockRunnerTest, GradientsArePlainAutograds) {
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_(),
                   gradient = RandomTensor({5, kWidth});
  const at::Tensor result = Run(hidden);
  EXPECT_EQ(runs_, 1);
  EXPECT_TRUE(BitEqual(result, Toy({{w_->weight(), b_->weight()}}, hidden)));
  EXPECT_FALSE(w_->gradient().defined());
  result.backward(gradient);
  EXPECT_EQ(runs_, 1 + Again());
  const auto wanted = ToyGradients({w_->weight(), b_->weight()}, hidden, gradient);
  EXPECT_TRUE(BitEqual(hidden.grad(), wanted[0]));
  EXPECT_TRUE(BitEqual(w_->gradient(), wanted[1]));
  EXPECT_TRUE(BitEqual(b_->gradient(), wanted[2]));
}

TEST_P(BlockRunnerTest, AbsentWeights) {
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_();
  RunBlock(ToyBlock, {{w_, at::kDouble}, {nullptr, at::kDouble}}, {hidden}, {GetParam()})[0]
      .sum()
      .backward();
  EXPECT_EQ(w_->gradient().sizes(), w_->weight().sizes());
}

TEST_P(BlockRunnerTest, FrozenWeightsTakeNoGradient) {
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_(),
                   gradient = RandomTensor({5, kWidth});
  w_->set_trainable(false);
  Run(hidden).backward(gradient);
  const auto wanted = ToyGradients({w_->weight(), b_->weight()}, hidden, gradient);
  EXPECT_FALSE(w_->gradient().defined());
  EXPECT_TRUE(BitEqual(b_->gradient(), wanted[2]));
  EXPECT_TRUE(BitEqual(hidden.grad(), wanted[0]));
  b_->set_trainable(false);
  b_->ClearGradient();
  hidden.mutable_grad().reset();
  Run(hidden).backward(gradient);
  EXPECT_FALSE(b_->gradient().defined());
  EXPECT_TRUE(BitEqual(hidden.grad(), wanted[0]));
}

TEST_P(BlockRunnerTest, HiddenWithoutGradient) {
  const at::Tensor hidden = RandomTensor({5, kWidth}), gradient = RandomTensor({5, kWidth});
  Run(hidden).backward(gradient);
  EXPECT_TRUE(
      BitEqual(w_->gradient(), ToyGradients({w_->weight(), b_->weight()}, hidden, gradient)[1]));
}

TEST_P(BlockRunnerTest, NothingIsKeptWithoutTrainableWeights) {
  at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_();
  {
    at::NoGradGuard no_grad;
    LiveBytes live;
    const at::Tensor result = Run(hidden);
    EXPECT_FALSE(result.requires_grad());
    EXPECT_LE(live.now() - static_cast<int64_t>(result.nbytes()), 64);
  }
  w_->set_trainable(false);
  b_->set_trainable(false);
  EXPECT_FALSE(Run(hidden.detach()).requires_grad());
  EXPECT_TRUE(Run(hidden).requires_grad());
}

// Several forwards run before their backwards, as for the chosen and rejected answers of DPO; the
// backwards run in any order.
TEST_P(BlockRunnerTest, ManyForwardsLive) {
  std::vector<at::Tensor> hiddens, gradients, results;
  at::Tensor wanted = at::zeros({kWidth, kWidth}, at::kDouble);
  for (int64_t i = 0; i < 4; ++i) {
    hiddens.push_back(RandomTensor({3 + i, kWidth}).requires_grad_());
    gradients.push_back(RandomTensor({3 + i, kWidth}));
    results.push_back(Run(Run(hiddens.back())));
  }
  for (const int i : {2, 0, 3, 1}) results[i].backward(gradients[i]);
  for (int i = 0; i < 4; ++i) {
    const at::Tensor leaf = hiddens[i].detach().requires_grad_();
    const std::vector<at::Tensor> leaves = {w_->weight().detach().requires_grad_(), b_->weight()};
    const auto parts =
        torch::autograd::grad({Toy(leaves, Toy(leaves, leaf))}, {leaf, leaves[0]}, {gradients[i]});
    EXPECT_TRUE(RelativeError(hiddens[i].grad(), parts[0], 1e-14));
    wanted += parts[1];
  }
  EXPECT_TRUE(RelativeError(w_->gradient(), wanted, 1e-14));  // the same sum in another order
}

// A block with several results, as for a router's statistics next to the hidden states: the second
// result has a gradient, the third (a count) has none.
TEST_P(BlockRunnerTest, SeveralResults) {
  const BlockFunction block = [](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun&) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    return {Toy(weights, hidden), at::linear(hidden, weights[0]).softmax(1).sum(0),
            at::linear(hidden, weights[0]).argmax(1)};
  };
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_(),
                   gradient = RandomTensor({5, kWidth}), second = RandomTensor({kWidth});
  for (const bool first_used : {true, false}) {
    for (const bool second_used : {true, false}) {
      if (!first_used && !second_used) continue;
      hidden.mutable_grad().reset();
      w_->ClearGradient();
      const std::vector<at::Tensor> results =
          RunBlock(block, {{w_, at::kDouble}, {b_, at::kDouble}}, {hidden}, {GetParam()});
      ASSERT_EQ(results.size(), 3u);
      EXPECT_TRUE(results[1].requires_grad());
      EXPECT_FALSE(results[2].requires_grad());
      EXPECT_TRUE(BitEqual(results[2], at::linear(hidden.detach(), w_->weight()).argmax(1)));
      at::Tensor sum = at::zeros({}, at::kDouble);
      if (first_used) sum = sum + (results[0] * gradient).sum();
      if (second_used) sum = sum + (results[1] * second).sum();
      sum.backward();
      const at::Tensor leaf = hidden.detach().requires_grad_(),
                       weight = w_->weight().detach().requires_grad_();
      at::Tensor wanted = at::zeros({}, at::kDouble);
      if (first_used) wanted = wanted + (Toy({{weight, b_->weight()}}, leaf) * gradient).sum();
      if (second_used)
        wanted = wanted + (at::linear(leaf, weight).softmax(1).sum(0) * second).sum();
      const auto gradients = torch::autograd::grad({wanted}, {leaf, weight});
      EXPECT_TRUE(RelativeError(hidden.grad(), gradients[0],
                                1e-14));  // the sum of two gradients, in either order
      EXPECT_TRUE(RelativeError(w_->gradient(), gradients[1], 1e-14));
    }
  }
}

TEST_P(BlockRunnerTest, NoRows) {
  const at::Tensor hidden = at::empty({0, kWidth}, at::kDouble).requires_grad_();
  Run(hidden).sum().backward();
  EXPECT_EQ(runs_, 1 + Again());
  EXPECT_EQ(hidden.grad().sizes(), hidden.sizes());
  EXPECT_TRUE(BitEqual(w_->gradient(), at::zeros({kWidth, kWidth}, at::kDouble)));
  EXPECT_TRUE(BitEqual(b_->gradient(), at::zeros({kWidth}, at::kDouble)));
}

TEST_P(BlockRunnerTest, WeightsAreSeenInTheDtypeAskedFor) {
  const auto w = RandomParameter({kWidth, kWidth}, at::kFloat);
  const BlockFunction block = [](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun&) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    EXPECT_EQ(weights[0].scalar_type(), at::kBFloat16);
    return {at::linear(hidden.to(at::kBFloat16), weights[0]).to(at::kFloat)};
  };
  const at::Tensor hidden = RandomTensor({5, kWidth}, at::kFloat).requires_grad_();
  RunBlock(block, {{w, at::kBFloat16}}, {hidden}, {GetParam()})[0].sum().backward();
  EXPECT_EQ(w->gradient().scalar_type(), at::kFloat);
  EXPECT_EQ(hidden.grad().scalar_type(), at::kFloat);
}

// Gradients of a weight that is used in bf16 are summed in fp32: in each mode, over several
// backwards, including the gradients of a bias and of other operators. The sum is closer to fp64
// than if each gradient were rounded to bf16.
TEST_P(BlockRunnerTest, WeightsInBf16AreSummedInFp32) {
  const auto w = RandomParameter({kWidth, kWidth}, at::kFloat),
             v = RandomParameter({kWidth, kWidth}, at::kFloat);
  bool sums = true;
  int given = 0;
  const BlockFunction block = [&](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                  const BlockRun& run) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    const at::Tensor x = hidden.to(at::kBFloat16);
    const auto sum = sums && !run.sums.empty() ? run.sums[0] : nullptr;
    given += sum != nullptr;
    // w is used in a product that adds its gradient to the sum, and in another operator.
    return {(Linear(x, weights[0], at::Tensor(), sum) + at::linear(x, weights[1]) + weights[0][0])
                .to(at::kFloat)};
  };
  const at::Tensor hidden = RandomTensor({200, kWidth}, at::kFloat).requires_grad_(),
                   dy = RandomTensor({200, kWidth}, at::kBFloat16).to(at::kFloat);
  const auto error_of = [&](int times) {
    w->ClearGradient();
    v->ClearGradient();
    const void* first = nullptr;
    for (int i = 0; i < times; ++i) {
      RunBlock(block, {{w, at::kBFloat16}, {v, at::kBFloat16}}, {hidden}, {GetParam()})[0].backward(
          dy);
      if (i == 0) first = w->gradient().const_data_ptr();
    }
    EXPECT_EQ(w->gradient().const_data_ptr(), first);
    EXPECT_EQ(w->gradient().scalar_type(), at::kFloat);
    const at::Tensor x = hidden.detach().to(at::kBFloat16).to(at::kDouble),
                     product = at::mm(dy.to(at::kDouble).t(), x);
    at::Tensor wanted = product.clone();
    wanted[0] += dy.to(at::kDouble).sum(0);
    // Bound for a bf16 product and bf16 sums over rows: some roundings of 2^-9.
    EXPECT_TRUE(RelativeError(v->gradient(), product * times, 5e-3));
    EXPECT_TRUE(RelativeError(w->gradient(), wanted * times, 5e-3));
    return testing::RelativeErrorOf(w->gradient(), wanted * times);
  };
  const double summed = error_of(3);
  EXPECT_EQ(given, 3);  // once in each run with a graph
  sums = false;
  EXPECT_LE(summed, error_of(3));
}

TEST_P(BlockRunnerTest, ExceptionsComeThroughAsThrown) {
  bool broken = true;
  const BlockFunction block = [&](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                  const BlockRun&) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    if (broken) throw base::StatusError(absl::UnavailableError("rank 3 is gone"));
    return {at::linear(hidden, weights[0])};
  };
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_();
  EXPECT_THROW(RunBlock(block, {{w_, at::kDouble}}, {hidden}, {GetParam()}), base::StatusError);
  broken = false;
  const at::Tensor result = RunBlock(block, {{w_, at::kDouble}}, {hidden}, {GetParam()})[0].sum();
  if (GetParam() == Recompute::kNone) return;
  broken = true;
  EXPECT_THROW(result.backward(), base::StatusError);
}

TEST_P(BlockRunnerTest, ASecondBackwardNeedsTheGraphRetained) {
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_();
  const at::Tensor retained = Run(hidden).sum();
  retained.backward({}, /*retain_graph=*/true);
  const at::Tensor once = w_->gradient().clone();
  retained.backward();
  EXPECT_TRUE(BitEqual(w_->gradient(), once * 2));
  EXPECT_THROW(retained.backward(), std::exception);
  const at::Tensor plain = Run(hidden).sum();
  EXPECT_THROW(torch::autograd::grad({plain}, {hidden}, {}, std::nullopt, /*create_graph=*/true),
               c10::Error);
}

// An all-reduce of a scalar between threads, forward and backward. Each call waits for all ranks,
// so a missing call makes the test hang.
class Meeting {
 public:
  explicit Meeting(int ranks) : barrier_(ranks), values_(ranks) {}
  at::Tensor Sum(int rank, const at::Tensor& value) {
    values_[rank] = value.detach().clone();
    barrier_.arrive_and_wait();
    at::Tensor sum = at::stack(values_).sum(0);
    barrier_.arrive_and_wait();
    return sum;
  }

 private:
  std::barrier<> barrier_;
  std::vector<at::Tensor> values_;
};

class SumOverRanks : public torch::autograd::Function<SumOverRanks> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& value,
                            int64_t rank, int64_t meeting) {
    ctx->saved_data["rank"] = rank;
    ctx->saved_data["meeting"] = meeting;
    return reinterpret_cast<Meeting*>(meeting)->Sum(static_cast<int>(rank), value);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    auto* meeting = reinterpret_cast<Meeting*>(ctx->saved_data["meeting"].toInt());
    return {meeting->Sum(static_cast<int>(ctx->saved_data["rank"].toInt()), gradients[0]),
            at::Tensor(), at::Tensor()};
  }
};

// A block with a collective, y = x W + (sum of x W over the rows of all ranks). Ranks with 5, 0 and
// 2 of 7 rows together give the result of one rank.
TEST_P(BlockRunnerTest, CollectivesInsideABlock) {
  const std::vector<int64_t> rows = {5, 0, 2};
  const at::Tensor whole = RandomTensor({7, kWidth}), gradient = RandomTensor({7, kWidth}),
                   weight = w_->weight();
  const at::Tensor leaf = whole.detach().requires_grad_(),
                   weight_leaf = weight.detach().requires_grad_();
  at::Tensor y = leaf;
  for (int layer = 0; layer < 2; ++layer) {
    const at::Tensor product = at::linear(y, weight_leaf).tanh();
    y = product + product.sum(0);
  }
  const auto wanted = torch::autograd::grad({y}, {leaf, weight_leaf}, {gradient});

  const auto hiddens = whole.split_with_sizes(rows), parts = gradient.split_with_sizes(rows);
  std::vector<at::Tensor> locals(3), weight_gradients(3);
  Meeting meeting(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto w = std::make_shared<base::Parameter>("w", weight);
      const BlockFunction block = [&](absl::Span<const at::Tensor> weights,
                                      const BlockInputs& inputs,
                                      const BlockRun&) -> std::vector<at::Tensor> {
        const at::Tensor& hidden = inputs.hidden;
        const at::Tensor product = at::linear(hidden, weights[0]).tanh();
        return {product + SumOverRanks::apply(product.sum(0), static_cast<int64_t>(rank),
                                              reinterpret_cast<int64_t>(&meeting))};
      };
      const at::Tensor hidden = hiddens[rank].detach().requires_grad_();
      const at::Tensor once = RunBlock(block, {{w, at::kDouble}}, {hidden}, {GetParam()})[0];
      RunBlock(block, {{w, at::kDouble}}, {once}, {GetParam()})[0].backward(parts[rank]);
      locals[rank] = hidden.grad();
      weight_gradients[rank] = w->gradient();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(RelativeError(at::cat(locals), wanted[0], 1e-13));
  EXPECT_TRUE(RelativeError(at::stack(weight_gradients).sum(0), wanted[1], 1e-13));
}

// A store that keeps clones and counts them.
class CloneStore : public ActivationStore {
 public:
  std::unique_ptr<StoredActivation> Put(at::Tensor activation) override {
    ++puts;
    return std::make_unique<Stored>(activation.detach().clone(), *this);
  }
  int64_t stored_bytes() const override { return live; }
  int puts = 0, gets = 0, live = 0;

 private:
  struct Stored : public StoredActivation {
    Stored(at::Tensor kept, CloneStore& counts) : tensor(std::move(kept)), store(counts) {
      ++store.live;
    }
    ~Stored() override { --store.live; }
    at::Tensor Get() override { return ++store.gets, tensor; }
    at::Tensor tensor;
    CloneStore& store;
  };
};

// Tensors that attention saves for its backward are stored too, and restored. A backward that
// retains the graph leaves them in the store.
TEST_P(BlockRunnerTest, WhatIsKeptWaitsInTheStore) {
  const BlockFunction block = [&](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                  const BlockRun& run) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    if (run.kept != nullptr && run.kept->empty())
      run.kept->Keep({at::full({2}, 7.0), at::ones({3})});
    if (run.kept != nullptr) {
      EXPECT_EQ(run.kept->tensors()[0][0].item<double>(), 7.0);
    }
    return {Toy(weights, hidden)};
  };
  const at::Tensor hidden = RandomTensor({5, kWidth}).requires_grad_(),
                   gradient = RandomTensor({5, kWidth});
  const auto store = std::make_shared<CloneStore>();
  const at::Tensor result = RunBlock(block, {{w_, at::kDouble}, {b_, at::kDouble}}, {hidden},
                                     {.recompute = GetParam(), .store = store})[0];
  const int put = GetParam() == Recompute::kNone ? 0 : GetParam() == Recompute::kBlock ? 1 : 3;
  EXPECT_EQ(store->puts, put);
  EXPECT_EQ(store->live, put);
  result.backward(gradient, /*retain_graph=*/true);
  EXPECT_EQ(store->live, put);
  result.backward(gradient);
  EXPECT_EQ(store->live, 0);
  EXPECT_EQ(store->gets, 2 * put);
  const auto wanted = ToyGradients({w_->weight(), b_->weight()}, hidden, gradient);
  EXPECT_TRUE(BitEqual(w_->gradient(), wanted[1] * 2));
  EXPECT_TRUE(BitEqual(hidden.grad(), wanted[0] * 2));
}

// With recomputation, only one input per block is kept: ten blocks of [64, 256] rows whose inner
// width is four times as large.
TEST(BlockRunnerMemoryTest, RecomputeKeepsOneInputABlock) {
  const int64_t rows = 64, width = 256, layers = 10, input_bytes = rows * width * 4;
  const auto up = RandomParameter({4 * width, width}, at::kFloat, /*trainable=*/true),
             down = RandomParameter({width, 4 * width}, at::kFloat);
  const BlockFunction block = [](absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun&) -> std::vector<at::Tensor> {
    const at::Tensor& hidden = inputs.hidden;
    return {hidden + at::linear(at::linear(hidden, weights[0]).tanh(), weights[1])};
  };
  const at::Tensor hidden = RandomTensor({rows, width}, at::kFloat).requires_grad_();
  const auto kept = [&](Recompute recompute) {
    LiveBytes live;
    at::Tensor x = hidden;
    for (int64_t layer = 0; layer < layers; ++layer)
      x = RunBlock(block, {{up, at::kFloat}, {down, at::kFloat}}, {x}, {recompute})[0];
    return live.now();
  };
  EXPECT_LE(kept(Recompute::kBlock), layers * input_bytes + layers * 64);
  EXPECT_GE(kept(Recompute::kNone), layers * 5 * input_bytes);
}

TEST(LookUpTest, RowsAndTheirGradients) {
  const auto embedding = RandomParameter({11, 4});
  const at::Tensor ids = at::tensor({3, 0, 3, 10}, at::kLong), gradient = RandomTensor({4, 4});
  const at::Tensor rows = LookUp(embedding, ids, {at::kDouble, at::kDouble});
  EXPECT_TRUE(BitEqual(rows, embedding->weight().index_select(0, ids)));
  const at::Tensor head = RandomTensor({11, 4});
  embedding->AddGradient(head);  // in a backward, a tied head adds its gradient first
  rows.backward(gradient);
  at::Tensor wanted = head.clone();
  for (int64_t i = 0; i < 4; ++i) wanted[ids[i].item<int64_t>()] += gradient[i];
  EXPECT_TRUE(BitEqual(embedding->gradient(), wanted));
}

TEST(LookUpTest, PadsTakeNoGradient) {
  const auto embedding = RandomParameter({11, 4});
  const at::Tensor ids = at::tensor({3, 0, 3, 10}, at::kLong), gradient = RandomTensor({4, 4});
  const at::Tensor rows = LookUp(embedding, ids, {at::kDouble, at::kDouble, /*pad_id=*/3});
  EXPECT_TRUE(BitEqual(rows, embedding->weight().index_select(0, ids)));
  rows.backward(gradient);
  at::Tensor wanted = at::zeros({11, 4}, at::kDouble);
  wanted[0] += gradient[1];
  wanted[10] += gradient[3];
  EXPECT_TRUE(BitEqual(embedding->gradient(), wanted));
}

TEST(LookUpTest, RoundsToTheLookUpDtype) {
  const auto embedding = RandomParameter({11, 4}, at::kFloat);
  const at::Tensor rows =
      LookUp(embedding, at::tensor({1, 2}, at::kLong), {at::kBFloat16, at::kFloat});
  EXPECT_TRUE(BitEqual(rows, embedding->weight().narrow(0, 1, 2).to(at::kBFloat16).to(at::kFloat)));
}

TEST(LookUpTest, FrozenAndEmpty) {
  const auto frozen = RandomParameter({11, 4}, at::kFloat, /*trainable=*/false),
             embedding = RandomParameter({11, 4}, at::kFloat);
  EXPECT_FALSE(LookUp(frozen, at::tensor({1}, at::kLong), {}).requires_grad());
  LookUp(embedding, at::empty({0}, at::kLong), {}).sum().backward();
  EXPECT_TRUE(BitEqual(embedding->gradient(), at::zeros({11, 4}, at::kFloat)));
  EXPECT_THROW(LookUp(embedding, at::tensor({11}, at::kLong), {}), c10::Error);
}

TEST(LookUpTest, BackwardMakesNoSecondGradient) {
  const auto embedding = RandomParameter({10000, 16}, at::kFloat);
  embedding->AddGradient(at::ones({10000, 16}, at::kFloat));
  LiveBytes live;
  LookUp(embedding, at::tensor({1, 5, 9}, at::kLong), {}).sum().backward();
  EXPECT_LE(live.peak(), 16 * 1024);
}

INSTANTIATE_TEST_SUITE_P(Modes, BlockRunnerTest,
                         ::testing::Values(Recompute::kBlock, Recompute::kSelective,
                                           Recompute::kNone),
                         [](const auto& info) {
                           return info.param == Recompute::kBlock  ? "Block"
                                  : info.param == Recompute::kNone ? "None"
                                                                   : "Selective";
                         });

}  // namespace
}  // namespace moonring::model
