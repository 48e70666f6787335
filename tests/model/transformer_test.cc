#include "model/transformer.h"

#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "model/config/weights.h"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/live_bytes.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_sketch.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::ParsedConfig;
using ::moonring::testing::RelativeError;
using ::moonring::testing::SketchedError;
using ::moonring::testing::SmallJson;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kGolden[] = "tests/golden/model/";

TransformerOptions In(at::ScalarType weight, at::ScalarType matmul,
                      Recompute recompute = Recompute::kBlock) {
  return {.weight_dtype = weight, .matmul_dtype = matmul, .recompute = recompute};
}

struct LabelledStream {
  std::vector<int64_t> lengths;
  at::Tensor ids, positions, targets;
};

LabelledStream MakeStream(std::vector<int64_t> lengths, const at::Tensor& ids,
                          const at::Tensor& labels) {
  const at::Tensor positions = comm::PositionsInDocuments(lengths),
                   targets = comm::ShiftLabels(labels, lengths);
  return {std::move(lengths), ids, positions, targets};
}

struct Outcome {
  double loss = 0;
  at::Tensor logits;
  std::map<std::string, at::Tensor> gradients;
};

// Runs the forward, the mean loss over targets by plain operators in fp32 or fp64, and the
// backward. The head's gradient is stored in its Parameter.
Outcome RunModel(Transformer& model, const LabelledStream& stream, double loss_scale = 1.0) {
  for (const auto& parameter : model.parameters()) parameter->ClearGradient();
  const auto attention = std::make_shared<MaskedAttention>(stream.lengths);
  const at::ScalarType wide = WideDtype(model.options().matmul_dtype);
  const at::Tensor hidden =
      model.Forward(stream.ids, stream.positions, attention).hidden_TD.to(wide);
  at::Tensor head = model.head()->Lease(wide).requires_grad_();
  Outcome outcome;
  const at::Tensor logits = at::linear(hidden, head);
  const at::Tensor loss =
      at::cross_entropy_loss(logits, stream.targets, {}, at::Reduction::Mean, comm::kIgnore);
  loss.mul(loss_scale).backward();
  model.head()->AddGradient(head.grad());
  outcome.loss = loss.item<double>();
  outcome.logits = logits.detach();
  for (const auto& parameter : model.parameters())
    outcome.gradients[parameter->name()] = parameter->gradient();
  return outcome;
}

std::unique_ptr<Transformer> LoadGolden(const std::string& name, TransformerOptions options) {
  auto checkpoint = Checkpoint::Open(kGolden + name);
  EXPECT_OK(checkpoint);
  auto model = Transformer::Load(*checkpoint, options);
  EXPECT_OK(model);
  return *std::move(model);
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file);
}

at::Tensor Longs(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<int64_t>>(), at::kLong);
}

LabelledStream StreamOf(const nlohmann::json& input) {
  return MakeStream(input["lengths"].get<std::vector<int64_t>>(), Longs(input["input_ids"]),
                    Longs(input["labels"]));
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  nlohmann::json Cases() const { return ReadJson(kGolden + GetParam() + "/golden.json")["cases"]; }
};

// In fp64 the results equal Transformers' up to the order of sums.
TEST_P(GoldenTest, Fp64) {
  const auto model = LoadGolden(GetParam(), In(at::kDouble, at::kDouble));
  for (const nlohmann::json& golden : Cases()) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const nlohmann::json& output = golden["output"];
    const Outcome outcome = RunModel(*model, StreamOf(golden["input"]));
    const double wanted = golden["loss_sum"].get<double>() / golden["predictions"].get<double>();
    EXPECT_NEAR(outcome.loss, wanted, 1e-12 * wanted);
    const at::Tensor places = outcome.logits.index_select(0, Longs(golden["input"]["positions"]));
    std::vector<at::Tensor> logits;
    for (const nlohmann::json& row : output["logits"])
      logits.push_back(at::tensor(row.get<std::vector<double>>(), at::kDouble));
    EXPECT_TRUE(RelativeError(places.narrow(1, 0, 8), at::stack(logits), 1e-10));
    EXPECT_TRUE(RelativeError(
        places.logsumexp({1}),
        at::tensor(output["logsumexp"].get<std::vector<double>>(), at::kDouble), 1e-10));
    for (const auto& [name, norm] : output["grad_norm"].items()) {
      ASSERT_TRUE(outcome.gradients.count(name)) << name;
      EXPECT_NEAR(outcome.gradients.at(name).norm().item<double>(), norm.get<double>(),
                  1e-10 * norm.get<double>())
          << name;
    }
    EXPECT_EQ(output["grad_norm"].size(), outcome.gradients.size());
    if (!golden.contains("gradients")) continue;
    for (const auto& [name, gradient] : outcome.gradients)
      EXPECT_TRUE(SketchedError(name, gradient, golden["gradients"].at(name), 1e-10));
  }
}

TEST_P(GoldenTest, Fp32) {
  const auto exact = LoadGolden(GetParam(), In(at::kDouble, at::kDouble)),
             model = LoadGolden(GetParam(), In(at::kFloat, at::kFloat));
  for (const nlohmann::json& golden : Cases()) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const LabelledStream stream = StreamOf(golden["input"]);
    const Outcome outcome = RunModel(*model, stream), wanted = RunModel(*exact, stream);
    // Bounds relative to Transformers in fp32: both have an error of a few roundings.
    EXPECT_NEAR(outcome.loss, golden["loss_fp32"].get<double>(), 1e-6 * outcome.loss);
    for (const auto& [name, gradient] : outcome.gradients)
      EXPECT_TRUE(RelativeError(gradient, wanted.gradients.at(name), 1e-5)) << name;
  }
}

TEST_P(GoldenTest, RecomputeChangesNoBit) {
  const std::pair<at::ScalarType, std::optional<at::ScalarType>> dtypes[] = {
      {at::kFloat, std::nullopt},
      {at::kBFloat16, std::nullopt},
      {at::kBFloat16, at::kBFloat16},
      {at::kHalf, std::nullopt}};
  for (const auto& [dtype, residual] : dtypes) {
    const LabelledStream stream = StreamOf(Cases()[2]["input"]);
    TransformerOptions options = In(at::kFloat, dtype);
    options.stream_dtype = residual;
    const Outcome a = RunModel(*LoadGolden(GetParam(), options), stream);
    for (const Recompute other : {Recompute::kSelective, Recompute::kNone}) {
      options.recompute = other;
      const Outcome b = RunModel(*LoadGolden(GetParam(), options), stream);
      EXPECT_EQ(a.loss, b.loss);
      for (const auto& [name, gradient] : a.gradients)
        EXPECT_TRUE(BitEqual(gradient, b.gradients.at(name))) << name;
    }
  }
}

// Bounds for bf16: it has 8 bits, so a rounding is 2^-9, with about twenty roundings for each
// number, and these random models are not smooth. On the same rows, Transformers under autocast has
// errors of 4.3% to 9.4% in its worst gradients, and of 5e-5 to 1.1e-3 in losses.
TEST_P(GoldenTest, Bf16) {
  const auto exact = LoadGolden(GetParam(), In(at::kDouble, at::kDouble));
  const LabelledStream stream = StreamOf(Cases()[2]["input"]);
  const Outcome wanted = RunModel(*exact, stream);
  using Residual = std::optional<at::ScalarType>;
  for (const auto& [weights, residual] :
       {std::pair(at::kFloat, Residual()), {at::kBFloat16, {}}, {at::kFloat, at::kBFloat16}}) {
    SCOPED_TRACE(weights);
    TransformerOptions options = In(weights, at::kBFloat16);
    options.stream_dtype = residual;
    const auto model = LoadGolden(GetParam(), options);
    const Outcome outcome = RunModel(*model, stream);
    EXPECT_NEAR(outcome.loss, wanted.loss, 4e-3 * wanted.loss);
    EXPECT_TRUE(RelativeError(outcome.logits, wanted.logits, 5e-2));
    for (const auto& [name, gradient] : outcome.gradients) {
      EXPECT_EQ(gradient.scalar_type(), at::kFloat);
      EXPECT_TRUE(RelativeError(gradient, wanted.gradients.at(name), 0.12)) << name;
    }
  }
}

// Bounds for fp16: it has 11 bits, so errors are an eighth of bf16's, if the loss is scaled:
// otherwise numbers below 6e-8 underflow in the backward. Attention, norms and the loss are fp32.
TEST_P(GoldenTest, Fp16) {
  constexpr double kScale = 1024.0;
  const auto exact = LoadGolden(GetParam(), In(at::kDouble, at::kDouble));
  const LabelledStream stream = StreamOf(Cases()[2]["input"]);
  const Outcome wanted = RunModel(*exact, stream);
  const auto model = LoadGolden(GetParam(), In(at::kFloat, at::kHalf));
  const Outcome outcome = RunModel(*model, stream, kScale);
  EXPECT_NEAR(outcome.loss, wanted.loss, 5e-4 * wanted.loss);
  EXPECT_TRUE(RelativeError(outcome.logits, wanted.logits, 7e-3));
  for (const auto& [name, gradient] : outcome.gradients) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_TRUE(RelativeError(gradient / kScale, wanted.gradients.at(name), 0.015)) << name;
  }
}

TEST_P(GoldenTest, AFrozenModelComputesTheSame) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto model = LoadGolden(GetParam(), In(at::kFloat, dtype));
    TransformerOptions options = In(at::kFloat, dtype);
    options.frozen = true;
    const auto frozen = LoadGolden(GetParam(), options);
    const LabelledStream stream = StreamOf(Cases()[2]["input"]);
    const auto attention = std::make_shared<MaskedAttention>(stream.lengths);
    const at::Tensor hidden = frozen->Forward(stream.ids, stream.positions, attention).hidden_TD;
    EXPECT_FALSE(hidden.requires_grad());
    EXPECT_TRUE(
        BitEqual(hidden, model->Forward(stream.ids, stream.positions, attention).hidden_TD));
    EXPECT_EQ(frozen->head()->weight().scalar_type(), dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         ::testing::Values("bf16", "gqa_tied", "head_dim", "mha_untied",
                                           "mistral_window", "mqa_5_1", "rope_parameters",
                                           "sharded", "uneven_6_3"),
                         [](const auto& info) { return info.param; });

ModelConfig ConfigOfSize(bool bias = false, int64_t layers = 2, int64_t hidden = 32) {
  return ParsedConfig(SmallJson({{"vocab_size", 61},
                                 {"hidden_size", hidden},
                                 {"intermediate_size", 2 * hidden},
                                 {"num_hidden_layers", layers},
                                 {"attention_bias", bias},
                                 {"mlp_bias", bias}}));
}

base::Parameters SeededWeights(const ModelConfig& config, at::ScalarType dtype) {
  at::manual_seed(5);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    at::Tensor value = at::randn(weight.shape, at::kDouble) * 0.2;
    if (weight.name.find("norm") != std::string::npos) value += 1;
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, value.to(dtype)));
  }
  return parameters;
}

LabelledStream RandomLabelledStream(const std::vector<int64_t>& lengths, int64_t vocabulary) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  const at::Tensor ids = at::randint(vocabulary, {tokens}, at::kLong);
  return MakeStream(lengths, ids, ids);
}

TEST(TransformerTest, BiasesAreUsedAndTrained) {
  const ModelConfig config = ConfigOfSize(/*bias=*/true);
  const base::Parameters parameters = SeededWeights(config, at::kDouble);
  ASSERT_OK_AND_ASSIGN(const auto model,
                       Transformer::Create(config, parameters, In(at::kDouble, at::kDouble)));
  const LabelledStream stream = RandomLabelledStream({9, 4}, config.vocab_size);
  const Outcome outcome = RunModel(*model, stream);
  for (const auto& parameter : model->parameters()) {
    if (parameter->name().find(".bias") == std::string::npos) continue;
    // Compares one element of each gradient with central differences. The change of a loss near 1
    // has an error of 1e-16 / 1e-5, for gradients of at least 1e-4.
    at::Tensor place = parameter->weight()[1];
    const double gradient = parameter->gradient()[1].item<double>();
    const at::Tensor kept = place.clone();
    place.copy_(kept + 1e-5);
    const double above = RunModel(*model, stream).loss;
    place.copy_(kept - 1e-5);
    const double below = RunModel(*model, stream).loss;
    place.copy_(kept);
    RunModel(*model, stream);
    EXPECT_NEAR((above - below) / 2e-5, gradient, 1e-9) << parameter->name();
    EXPECT_NE(gradient, 0.0) << parameter->name();
  }
}

TEST(TransformerTest, NoRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const ModelConfig config = ConfigOfSize(/*bias=*/true);
    ASSERT_OK_AND_ASSIGN(
        const auto model,
        Transformer::Create(config, SeededWeights(config, at::kFloat), In(at::kFloat, dtype)));
    const auto attention = std::make_shared<MaskedAttention>(std::vector<int64_t>());
    const at::Tensor none = at::empty({0}, at::kLong);
    const at::Tensor hidden = model->Forward(none, none, attention).hidden_TD;
    EXPECT_EQ(hidden.sizes(), at::IntArrayRef({0, config.hidden_size}));
    hidden.sum().backward();
    EXPECT_EQ(
        attention->calls,
        2 * config.layers);  // also in the recomputation, because attention may contain collectives
    for (const auto& parameter : model->parameters())
      EXPECT_TRUE(BitEqual(parameter->gradient(), at::zeros_like(parameter->weight())))
          << parameter->name();
  }
}

TEST(TransformerTest, OnlyWhatIsTrainableTakesAGradient) {
  const ModelConfig config = ConfigOfSize();
  ASSERT_OK_AND_ASSIGN(
      const auto model,
      Transformer::Create(config, SeededWeights(config, at::kFloat), In(at::kFloat, at::kFloat)));
  const LabelledStream stream = RandomLabelledStream({9, 4}, config.vocab_size);
  const Outcome all = RunModel(*model, stream);
  for (const auto& parameter : model->parameters()) {
    parameter->set_trainable(parameter->name().find("layers.1.mlp") != std::string::npos);
    parameter->ClearGradient();
  }
  const auto attention = std::make_shared<MaskedAttention>(stream.lengths);
  const at::Tensor logits =
      at::linear(model->Forward(stream.ids, stream.positions, attention).hidden_TD,
                 model->head()->Lease(at::kFloat));
  at::cross_entropy_loss(logits, stream.targets, {}, at::Reduction::Mean, comm::kIgnore).backward();
  EXPECT_EQ(attention->calls, config.layers + 1);  // the block below needs no backward
  for (const auto& parameter : model->parameters()) {
    if (parameter->trainable())
      EXPECT_TRUE(BitEqual(parameter->gradient(), all.gradients.at(parameter->name())))
          << parameter->name();
    else EXPECT_FALSE(parameter->gradient().defined()) << parameter->name();
  }
}

TEST(TransformerTest, RecomputeKeepsOneStreamALayer) {
  const ModelConfig config = ConfigOfSize(/*bias=*/false, /*layers=*/8, /*hidden=*/64);
  const LabelledStream stream = RandomLabelledStream({100, 28}, config.vocab_size);
  const int64_t stream_bytes = 128 * 64 * 4;
  const auto kept = [&](Recompute recompute) {
    auto model = Transformer::Create(config, SeededWeights(config, at::kFloat),
                                     In(at::kFloat, at::kFloat, recompute));
    const auto attention = std::make_shared<MaskedAttention>(stream.lengths);
    LiveBytes live;
    const at::Tensor hidden = (*model)->Forward(stream.ids, stream.positions, attention).hidden_TD;
    return live.now() - static_cast<int64_t>(hidden.nbytes());
  };
  const int64_t rotary_bytes = 2 * 128 * 8 * 4;
  EXPECT_LE(kept(Recompute::kBlock), (config.layers + 1) * stream_bytes + rotary_bytes + 4096);
  EXPECT_GE(kept(Recompute::kNone), config.layers * 10 * stream_bytes);
}

// The CPU's attention kernel, which counts its calls.
class CountedBlock : public attention::BlockAttention {
 public:
  absl::string_view name() const override { return "counted"; }
  mutable std::atomic<int> forwards = 0, backwards = 0;

 private:
  attention::PartialAttention RunForward(const attention::Tile& tile) const override {
    return ++forwards, cpu_.Forward(tile);
  }
  attention::TileGradients RunBackward(const attention::Tile& tile, const at::Tensor& dout,
                                       const at::Tensor& out,
                                       const at::Tensor& lse) const override {
    return ++backwards, cpu_.Backward(tile, dout, out, lse);
  }
  attention::CpuBlockAttention cpu_;
};

// Selective recomputation on several ranks: attention's backward does as much work, and sends as
// many bytes for keys, as without recomputation, and results are bit-identical. Two forwards are
// active at a time, as for the chosen and rejected answers of DPO.
TEST(TransformerTest, SelectiveRecomputeRunsNoAttentionTwice) {
  const ModelConfig config = ConfigOfSize(/*bias=*/false, /*layers=*/3);
  const base::Parameters weights = SeededWeights(config, at::kFloat);
  const std::vector<LabelledStream> streams = {RandomLabelledStream({130, 70}, config.vocab_size),
                                               RandomLabelledStream({90, 5}, config.vocab_size)};
  struct Run {
    int forwards = 0, backwards = 0;
    int64_t bytes = 0;
    std::vector<at::Tensor> gradients;
  };
  const auto run = [&](const std::string& strategy, Recompute recompute) {
    Run result;
    const auto counted = std::make_shared<CountedBlock>();
    testing::RunRanks(2, [&](std::shared_ptr<comm::World> world) {
      base::Parameters own;
      for (const auto& weight : weights)
        own.push_back(std::make_shared<base::Parameter>(weight->name(), weight->weight().clone()));
      ASSERT_OK_AND_ASSIGN(const auto model,
                           Transformer::Create(config, own, In(at::kFloat, at::kFloat, recompute)));
      const attention::TileRunners runners = [&](const at::Device&) {
        return std::make_shared<attention::ThreadedTileRunner>(counted);
      };
      ASSERT_OK_AND_ASSIGN(
          const auto attention,
          attention::CreateAttention({{.name = strategy}, world->communicator(), runners}));
      std::vector<at::Tensor> losses;
      for (const LabelledStream& stream : streams) {
        ASSERT_OK_AND_ASSIGN(const auto layout,
                             comm::Layout::Create(stream.lengths, attention->Divide(stream.lengths),
                                                  attention::CausalTileArea));
        ASSERT_OK_AND_ASSIGN(std::shared_ptr<attention::PlannedAttention> plan,
                             attention->Plan(layout));
        const int rank = world->rank();
        losses.push_back(
            model->Forward(layout->Cut(stream.ids, rank), layout->Cut(stream.positions, rank), plan)
                .hidden_TD.pow(2)
                .sum());
      }
      for (const at::Tensor& loss : losses) loss.backward();
      if (world->rank() != 0) return;
      result.bytes = world->communicator()->counters().bytes_sent;
      for (const auto& parameter : own) {
        if (parameter->gradient().defined()) result.gradients.push_back(parameter->gradient());
      }
    });
    result.forwards = counted->forwards;
    result.backwards = counted->backwards;
    return result;
  };
  for (const std::string strategy : {"zigzag-ring", "all-gather", "ulysses"}) {
    SCOPED_TRACE(strategy);
    const Run keeping = run(strategy, Recompute::kNone),
              selective = run(strategy, Recompute::kSelective),
              block = run(strategy, Recompute::kBlock);
    EXPECT_EQ(selective.forwards, keeping.forwards);
    EXPECT_EQ(block.forwards, 2 * keeping.forwards);
    EXPECT_EQ(selective.backwards, keeping.backwards);
    if (strategy != "ulysses") {
      EXPECT_EQ(selective.bytes, keeping.bytes);
    } else {  // q, k and v are exchanged again, the output is not
      EXPECT_LT(selective.bytes, block.bytes);
    }
    ASSERT_EQ(selective.gradients.size(), block.gradients.size());
    for (size_t i = 0; i < block.gradients.size(); ++i) {
      EXPECT_TRUE(BitEqual(selective.gradients[i], block.gradients[i]));
      EXPECT_TRUE(BitEqual(keeping.gradients[i], block.gradients[i]));
    }
  }
}

TEST(TransformerTest, RefusesWhatIsNotTheModel) {
  const ModelConfig config = ConfigOfSize();
  const auto create = [&](base::Parameters parameters, TransformerOptions options = {}) {
    return Transformer::Create(config, std::move(parameters), options).status();
  };
  base::Parameters parameters = SeededWeights(config, at::kFloat);
  EXPECT_OK(create({parameters.rbegin(), parameters.rend()}));
  EXPECT_THAT(create({parameters.begin() + 1, parameters.end()}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.embed_tokens.weight: missing")));
  base::Parameters twice = parameters;
  twice.push_back(parameters[3]);
  EXPECT_THAT(create(twice),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.layers.0.self_attn.k_proj.weight: given twice")));
  base::Parameters other = parameters;
  other.push_back(std::make_shared<base::Parameter>("lm_head.weight", at::zeros({61, 32})));
  EXPECT_THAT(create(other), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("lm_head.weight: not a weight of this model")));
  other = parameters;
  other[2] = std::make_shared<base::Parameter>(parameters[2]->name(), at::zeros({32, 31}));
  EXPECT_THAT(create(other), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("shape [32, 31], expected [32, 32]")));
  EXPECT_THAT(create(parameters, In(at::kBFloat16, at::kFloat)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BFloat16")));
  TransformerOptions options = In(at::kFloat, at::kFloat);
  options.stream_dtype = at::kBFloat16;
  EXPECT_THAT(create(parameters, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a residual stream in BFloat16 with matmuls in Float")));
  options.stream_dtype = at::kDouble;
  EXPECT_FALSE(create(parameters, options).ok());
  EXPECT_THAT(create(parameters, In(at::kHalf, at::kHalf)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("weights in Half with matmuls in Half, expected ")));
}

}  // namespace
}  // namespace moonring::model
