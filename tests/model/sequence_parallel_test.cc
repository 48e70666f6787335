// A whole model on ranks that share each sequence, compared with references without collectives:
// finite differences, fp64, one rank, and single documents.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/model/model_on_ranks.h"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::model {
namespace {

using ::moonring::testing::ConnectedRanks;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RelativeErrorOf;

const TransformerOptions kFp64{.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble}, kFp32{},
    kBf16{.matmul_dtype = at::kBFloat16};
constexpr const char* kStrategies[] = {"ulysses",    "ring", "zigzag-ring",
                                       "all-gather", "usp",  "double-ring"};

ModelConfig Config(int64_t layers) {
  return testing::ParsedConfig(testing::SmallJson({{"vocab_size", 61},
                                                   {"hidden_size", 32},
                                                   {"intermediate_size", 64},
                                                   {"num_hidden_layers", layers}}));
}

// Connected ranks by number of ranks, shared by all tests.
std::map<int, std::unique_ptr<ConnectedRanks>>& Connections() {
  static auto* const connections = new std::map<int, std::unique_ptr<ConnectedRanks>>;
  return *connections;
}

ConnectedRanks& Ranks(int ranks) {
  auto& found = Connections()[ranks];
  if (found == nullptr) found = std::make_unique<ConnectedRanks>(ranks);
  return *found;
}

class SequenceParallelTest : public ::testing::Test {
 protected:
  static void TearDownTestSuite() { Connections().clear(); }
};

// Replaces the hyphens of a strategy's name, which are not allowed in a test's name.
std::string AsName(std::string strategy) {
  std::replace(strategy.begin(), strategy.end(), '-', '_');
  return strategy;
}

constexpr auto NameOfStrategy = [](const auto& info) { return AsName(info.param); };

// A model's config, weights and documents.
struct Setting {
  ModelConfig config;
  base::Parameters weights = RandomWeights(config);
  Documents documents;

  Answer On(int ranks, const std::string& strategy, const TransformerOptions& options) const {
    return RunOn(Ranks(ranks), strategy, FromWeights(config, weights, options), documents,
                 documents.targets());
  }
  Answer OnOne(const TransformerOptions& options) const { return On(1, "dense", options); }
};

Setting MakeSetting(int64_t layers, std::vector<int64_t> lengths) {
  Setting setting{.config = Config(layers)};
  setting.documents = RandomDocuments(std::move(lengths), setting.config.vocab_size);
  return setting;
}

// Gradients equal central differences along a random direction of each weight. The error of the
// differences is h^2 L'''/6 + 1e-16 L/h, about 1e-9.
class GradientsTest : public SequenceParallelTest,
                      public ::testing::WithParamInterface<const char*> {};

TEST_P(GradientsTest, EqualFiniteDifferencesOnTwoRanks) {
  const Setting setting = MakeSetting(2, {130, 1, 77});
  constexpr double kStep = 1e-5;
  const Answer answer = setting.On(2, GetParam(), kFp64);
  for (const auto& weight : setting.weights) {
    const at::Tensor direction = at::randn_like(weight->weight()), kept = weight->weight().clone();
    const auto loss = [&](double step) {
      weight->weight().copy_(kept + direction * step);
      return setting.On(2, GetParam(), kFp64).loss /
             static_cast<double>(setting.documents.targets());
    };
    const double difference = (loss(kStep) - loss(-kStep)) / (2 * kStep);
    weight->weight().copy_(kept);
    const double gradient = (answer.gradients.at(weight->name()) * direction).sum().item<double>();
    EXPECT_NEAR(difference, gradient, 1e-7 * std::max(1.0, std::fabs(gradient))) << weight->name();
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, GradientsTest,
                         ::testing::Values("ulysses", "zigzag-ring", "all-gather"), NameOfStrategy);

// The fp32 error relative to fp64 stays within bounds in a model that is deep enough to reveal an
// error in each layer, with documents that eight ranks share.
TEST_F(SequenceParallelTest, TwentyFourLayersAgreeWithFp64) {
  const Setting setting = MakeSetting(24, {530, 65, 1});
  const Answer exact = setting.OnOne(kFp64), alone = setting.OnOne(kFp32);
  double worst_fp64 = 0, worst_fp32 = 0, worst_ratio = 0;
  const auto in_fp64 = [&](int ranks, const char* strategy) {
    SCOPED_TRACE(std::string(strategy) + " on " + std::to_string(ranks));
    const Answer fp64 = setting.On(ranks, strategy, kFp64);
    EXPECT_NEAR(fp64.loss, exact.loss, 1e-12 * exact.loss);
    for (const auto& [name, want] : exact.gradients) {
      EXPECT_TRUE(RelativeError(fp64.gradients.at(name), want, 1e-10)) << name;
      worst_fp64 = std::max(worst_fp64, RelativeErrorOf(fp64.gradients.at(name), want));
    }
  };
  const auto in_fp32 = [&](int ranks, const char* strategy) {
    SCOPED_TRACE(std::string(strategy) + " on " + std::to_string(ranks));
    const Answer fp32 = setting.On(ranks, strategy, kFp32);
    EXPECT_NEAR(fp32.loss, exact.loss, 1e-6 * exact.loss);
    for (const auto& [name, want] : exact.gradients) {
      const double of_one = RelativeErrorOf(alone.gradients.at(name), want),
                   of_ranks = RelativeErrorOf(fp32.gradients.at(name), want);
      EXPECT_LE(of_ranks, 2 * of_one) << name;
      worst_fp32 = std::max(worst_fp32, of_ranks),
      worst_ratio = std::max(worst_ratio, of_ranks / of_one);
    }
  };
  const std::vector<const char*> strategies = {"ulysses", "zigzag-ring", "all-gather"};
  size_t turn = 0;
  for (const int ranks : {2, 4, 8}) {
    for (const char* strategy : strategies) in_fp64(ranks, strategy);
    in_fp32(ranks, strategies[++turn % strategies.size()]);
  }
  std::printf("worst of a tensor's gradient: fp64 %.1e; fp32 %.1e, %.2f times one rank's\n",
              worst_fp64, worst_fp32, worst_ratio);
}

// Compares a 16-bit model with fp32: the error is at most twice (last hidden states) or three times
// (gradients) that of one rank.
void CompareNarrow(const TransformerOptions& options, const std::vector<std::string>& strategies) {
  const Setting setting = MakeSetting(4, {520, 64, 1, 200});
  const Answer want = setting.OnOne(kFp32), alone = setting.OnOne(options);
  double worst_output = 0, worst_gradient = 0;
  for (const int ranks : {2, 4}) {
    for (const std::string& strategy : strategies) {
      if (ranks == 2 && (strategy == "usp" || strategy == "double-ring")) continue;
      SCOPED_TRACE(strategy + " on " + std::to_string(ranks));
      const Answer got = setting.On(ranks, strategy, options);
      const double output = RelativeErrorOf(got.hidden_TD, want.hidden_TD) /
                            RelativeErrorOf(alone.hidden_TD, want.hidden_TD);
      EXPECT_LE(output, 2);
      worst_output = std::max(worst_output, output);
      for (const auto& [name, gradient] : want.gradients) {
        const double ratio = RelativeErrorOf(got.gradients.at(name), gradient) /
                             RelativeErrorOf(alone.gradients.at(name), gradient);
        EXPECT_LE(ratio, 3) << name;
        worst_gradient = std::max(worst_gradient, ratio);
      }
    }
  }
  std::printf("error in 16 bits, of one rank's: outputs %.2f, gradients %.2f\n", worst_output,
              worst_gradient);
}

TEST_F(SequenceParallelTest, Bf16IsAsExactAsOnOneRank) {
  CompareNarrow(kBf16, {std::begin(kStrategies), std::end(kStrategies)});
}

TEST_F(SequenceParallelTest, Fp16IsAsExactAsOnOneRank) {
  CompareNarrow({.matmul_dtype = at::kHalf}, {"ulysses", "zigzag-ring", "all-gather"});
}

TEST_F(SequenceParallelTest, ABf16StreamIsAsExactAsOnOneRank) {
  TransformerOptions options = kBf16;
  options.stream_dtype = at::kBFloat16;
  CompareNarrow(options, {"ulysses", "zigzag-ring"});
}

// The results of a document do not depend on the other documents of the stream, nor on how the
// stream is split over ranks.
class PackTest : public SequenceParallelTest,
                 public ::testing::WithParamInterface<std::tuple<int, const char*>> {
 protected:
  // Returns the sum of the single documents' results. Compares their hidden states with those of
  // the packed stream.
  Answer OneByOne(const Setting& setting, const Answer& pack) {
    const auto [ranks, strategy] = GetParam();
    Answer sum;
    int64_t begin = 0;
    for (size_t d = 0; d < setting.documents.lengths.size(); ++d) {
      const int64_t length = setting.documents.lengths[d];
      if (length == 0) continue;
      const Answer alone =
          RunOn(Ranks(ranks), strategy, FromWeights(setting.config, setting.weights, kFp64),
                setting.documents.Alone(d), setting.documents.targets());
      EXPECT_TRUE(RelativeError(pack.hidden_TD.narrow(0, begin, length), alone.hidden_TD, 1e-12))
          << "document " << d;
      begin += length;
      sum.loss += alone.loss;
      for (const auto& [name, gradient] : alone.gradients) {
        at::Tensor& total = sum.gradients[name];
        total = total.defined() ? total + gradient : gradient;
      }
    }
    return sum;
  }
};

TEST_P(PackTest, EqualsItsDocumentsOneByOne) {
  const Setting setting = MakeSetting(3, {130, 1, 77, 0, 400, 64});
  const auto [ranks, strategy] = GetParam();
  const Answer pack = ranks == 1 ? setting.OnOne(kFp64) : setting.On(ranks, strategy, kFp64);
  const Answer sum = OneByOne(setting, pack);
  EXPECT_NEAR(pack.loss, sum.loss, 1e-12 * sum.loss);
  for (const auto& [name, gradient] : sum.gradients)
    EXPECT_TRUE(RelativeError(pack.gradients.at(name), gradient, 1e-10)) << name;
}

constexpr auto NameOfPack = [](const auto& info) {
  return AsName(std::get<1>(info.param)) + "_on_" + std::to_string(std::get<0>(info.param));
};
INSTANTIATE_TEST_SUITE_P(One, PackTest, ::testing::Values(std::tuple(1, "dense")), NameOfPack);
INSTANTIATE_TEST_SUITE_P(Several, PackTest,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::ValuesIn(kStrategies)),
                         NameOfPack);

}  // namespace
}  // namespace moonring::model
