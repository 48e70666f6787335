// Rotary embeddings that depend on a document's length use the lengths of the packed stream's
// documents, not the positions: a packed row of LLaMA-Factory is one document whose positions
// restart.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "model/config/weights.h"
#include "model/transformer.h"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::MaskedAttention;
using ::moonring::testing::ParsedConfig;
using ::moonring::testing::RelativeError;
using ::moonring::testing::SmallJson;

constexpr int64_t kContext = 160;   // context of the rotary embedding
constexpr int64_t kLong = 230;      // length of the document with restarts
constexpr int64_t kRestarts = 120;  // where positions restart: none reaches the context
constexpr int64_t kShort = 90;

comm::Sequence Packed() {
  comm::Sequence sequence;
  sequence.lengths = {kLong, kShort};
  sequence.ids_T = at::arange(kLong + kShort, at::kLong).mul(7).remainder(13);
  const std::vector<int64_t> counted = {kRestarts, kLong - kRestarts, kShort};
  sequence.positions_T = comm::PositionsInDocuments(counted);
  sequence.targets_T = comm::ShiftLabels(sequence.ids_T, sequence.lengths);
  return sequence;
}

RotaryRule Dynamic() {
  return {.kind = RopeKind::kDynamic,
          .theta = 1e4,
          .dim = 8,
          .factor = 4.0,
          .original_length = static_cast<double>(kContext)};
}

RotaryRule LongRope() {
  return {.kind = RopeKind::kLongRope,
          .theta = 1e4,
          .dim = 8,
          .original_length = static_cast<double>(kContext),
          .short_factor = {1.0, 1.1, 1.2, 1.3},
          .long_factor = {2.0, 3.0, 5.0, 7.0}};
}

// Returns a rule that ignores the length, with the closed form of `rule` for a document of `length`
// tokens.
RotaryRule Fixed(const RotaryRule& rule, int64_t length) {
  if (rule.kind == RopeKind::kDynamic) {
    const double n = std::max<double>(static_cast<double>(length), rule.original_length);
    const double stretch = rule.factor * n / rule.original_length - (rule.factor - 1);
    return {.theta = rule.theta * std::pow(stretch, 8.0 / 6.0), .dim = rule.dim};
  }
  RotaryRule fixed = rule;
  fixed.short_factor =
      static_cast<double>(length) > rule.original_length ? rule.long_factor : rule.short_factor;
  fixed.long_factor = fixed.short_factor;
  return fixed;
}

// Returns a model with two layers in fp64, with the same weights in each call.
std::unique_ptr<Transformer> MakeRotated(const RotaryRule& rule) {
  ModelConfig config = ParsedConfig(SmallJson({{"hidden_size", 32}}));
  config.rotaries = {rule};
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    at::Tensor numbers = at::empty(weight.shape, at::kDouble);
    const double phase = static_cast<double>(parameters.size());
    numbers.copy_(
        at::arange(numbers.numel(), at::kDouble).mul(1.7).add(phase).sin().view(weight.shape));
    if (weight.shape.size() > 1) numbers.mul_(0.3);
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, numbers, true));
  }
  auto model = Transformer::Create(config, std::move(parameters),
                                   {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble});
  EXPECT_OK(model);
  return *std::move(model);
}

at::Tensor LossWeights(int64_t tokens) {
  return at::arange(tokens * 32, at::kDouble).mul(0.37).cos().view({tokens, 32});
}

at::Tensor GradientOf(Transformer& model, const std::string& name) {
  for (const auto& parameter : model.parameters()) {
    if (parameter->name() == name) return parameter->gradient();
  }
  return {};
}

constexpr char kWatched[] = "model.layers.0.self_attn.q_proj.weight";

struct RotatedOutcome {
  at::Tensor hidden, gradient;
};

// Computes the model for each document alone, with frequencies from the closed form and attention
// from its definition.
RotatedOutcome ByClosedForm(const RotaryRule& rule, const comm::Sequence& sequence) {
  const at::Tensor weights = LossWeights(sequence.ids_T.size(0));
  std::vector<at::Tensor> rows;
  at::Tensor gradient;
  int64_t begin = 0;
  for (const int64_t length : sequence.lengths) {
    const auto model = MakeRotated(Fixed(rule, length));
    const auto cut = [&](const at::Tensor& all) { return all.narrow(0, begin, length); };
    const auto attention = std::make_shared<MaskedAttention>(std::vector<int64_t>{length});
    ForwardOptions options;
    options.lengths_T = at::ones({length}, at::kLong);
    const at::Tensor ids = cut(sequence.ids_T), positions = cut(sequence.positions_T);
    const at::Tensor hidden = model->Forward(ids, positions, attention, options).hidden_TD;
    (hidden * cut(weights)).sum().backward();
    rows.push_back(hidden.detach());
    const at::Tensor of_document = GradientOf(*model, kWatched);
    gradient = gradient.defined() ? gradient + of_document : of_document;
    begin += length;
  }
  return {at::cat(rows), gradient};
}

// Runs the model as in training, over `ranks` ranks.
RotatedOutcome OverRanks(const RotaryRule& rule, const comm::Sequence& sequence, int ranks) {
  const at::Tensor weights = LossWeights(sequence.ids_T.size(0));
  std::vector<at::Tensor> hidden(ranks), gradients(ranks);
  std::shared_ptr<const comm::Layout> joined;
  testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    const int rank = world->rank();
    ASSERT_OK_AND_ASSIGN(const auto attention, attention::CreateAttention({{.name = "zigzag-ring"},
                                                                           world->communicator()}));
    ASSERT_OK_AND_ASSIGN(const auto layout,
                         comm::Layout::Create(sequence.lengths, attention->Divide(sequence.lengths),
                                              attention::CausalTileArea));
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<attention::PlannedAttention> plan,
                         attention->Plan(layout));
    const auto cut = [&](const at::Tensor& all) { return layout->Cut(all, rank); };
    const auto model = MakeRotated(rule);
    ForwardOptions options;
    options.lengths_T = cut(comm::LengthsOfTokens(sequence));
    const at::Tensor mine =
        model->Forward(cut(sequence.ids_T), cut(sequence.positions_T), plan, options).hidden_TD;
    (mine * cut(weights)).sum().backward();
    hidden[rank] = mine.detach();
    gradients[rank] = GradientOf(*model, kWatched);
    if (rank == 0) joined = layout;
  });
  if (joined == nullptr) return {};
  at::Tensor sum = gradients[0];
  for (int rank = 1; rank < ranks; ++rank) sum = sum + gradients[rank];
  return {joined->Join(hidden), sum};
}

// A document whose positions restart has the frequencies of its length. fp64 on both sides: some
// hundred roundings.
TEST(RopeLengths, AreOfTheDocumentWhereItsPositionsRestart) {
  const comm::Sequence sequence = Packed();
  ASSERT_LT(sequence.positions_T.max().item<int64_t>(), kContext);
  for (const RotaryRule& rule : {Dynamic(), LongRope()}) {
    const RotatedOutcome wanted = ByClosedForm(rule, sequence);
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << DescribeRope(rule) << ", sp " << ranks);
      const RotatedOutcome found = OverRanks(rule, sequence, ranks);
      ASSERT_TRUE(found.hidden.defined());
      EXPECT_TRUE(RelativeError(found.hidden, wanted.hidden, 1e-12));
      EXPECT_TRUE(RelativeError(found.gradient, wanted.gradient, 1e-10));
    }
  }
}

}  // namespace
}  // namespace moonring::model
