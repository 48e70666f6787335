// Optimizers that look at whole matrices against torch, LLaMA-Factory, galore-torch, apollo-torch,
// adam-mini and Transformers (golden/matrices.json, by make_matrices.py), and against
// transcriptions of papers (golden/matrix_papers.json, by make_matrix_papers.py).

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"
#include "tests/trainer/rules/rule_check.h"
#include "trainer/rules/adafactor.h"
#include "trainer/rules/adam_mini.h"
#include "trainer/rules/apollo.h"
#include "trainer/rules/conda.h"
#include "trainer/rules/fira.h"
#include "trainer/rules/galore.h"
#include "trainer/rules/muon.h"
#include "trainer/rules/online_subspace.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::CheckRule;
using ::moonring::testing::RuleBounds;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr double kDecay = 0.1;
const AdamOptions kAdam = {.beta2 = 0.99};
constexpr char kPeers[] = "matrices.json", kPapers[] = "matrix_papers.json";

template <auto rule_of, typename Options>
void Check(const char* file, const char* name, Options options, RuleBounds bounds = {}) {
  options.weight_decay = kDecay;
  bounds.matrices = true;
  CheckRule(
      file, name, [=](const comm::Parameters& all) { return rule_of(options, all); }, bounds);
}

std::shared_ptr<comm::Parameter> Weight(const char* name, std::vector<int64_t> shape) {
  return std::make_shared<comm::Parameter>(name, at::zeros(shape));
}

// Of a rule whose variant is checked in full.
constexpr RuleBounds kVariant = {.golden_alone = true};

// Its iteration is in bf16 in fp64 too: products of another machine may round elsewhere.
TEST(MatricesTest, Muon) {
  Check<&MuonRule>(kPeers, "muon_original", MuonOptions{.adam = kAdam}, {.fp64 = 1e-5});
  Check<&MuonRule>(
      kPeers, "muon_match",
      MuonOptions{
          .scale = MuonScale::kMatchRmsAdamW, .momentum = 0.9, .nesterov = false, .adam = kAdam},
      {.fp64 = 1e-5, .golden_alone = true});
  Check<&MuonRule>(
      kPeers, "use_muon",
      MuonOptions{
          .form = MuonForm::kLlamaFactory, .scale = MuonScale::kMatchRmsAdamW, .adam = kAdam},
      {.fp64 = 1e-5, .golden_alone = true});
}

TEST(MatricesTest, MuonInFullPrecision) {
  Check<&MuonRule>(kPapers, "muon_fp64", MuonOptions{.bf16 = false, .adam = kAdam}, kVariant);
  // The forms differ by the 1e-7 beside the norm.
  Check<&MuonRule>(kPapers, "muon_fp64",
                   MuonOptions{.form = MuonForm::kLlamaFactory, .bf16 = false, .adam = kAdam},
                   {.fp64 = 1e-7, .golden_alone = true});
}

GaloreOptions Galore(ProjectionType type, std::vector<std::string> targets = {}) {
  return {.rank = 3, .gap = 7, .scale = 0.5, .type = type, .targets = targets, .adam = kAdam};
}

TEST(MatricesTest, Galore) {
  Check<&GaloreRule>(kPeers, "galore_std", Galore(ProjectionType::kStd));
  Check<&GaloreRule>(kPeers, "galore_reverse_std", Galore(ProjectionType::kReverseStd), kVariant);
  Check<&GaloreRule>(kPeers, "galore_left", Galore(ProjectionType::kLeft), kVariant);
  Check<&GaloreRule>(kPeers, "galore_right", Galore(ProjectionType::kRight), kVariant);
  // Where L and R are new, low(G) is diagonal: the rest of it is rounding, of which Adam makes as
  // much as of the diagonal.
  Check<&GaloreRule>(kPeers, "galore_full", Galore(ProjectionType::kFull), {.fp32 = 1e-3});
  Check<&GaloreRule>(kPeers, "galore_targets", Galore(ProjectionType::kStd, {"q_proj", "lm_head"}),
                     kVariant);
}

// make_matrices.py's Projector.
at::Tensor Chirp(const std::string&, int64_t number, at::IntArrayRef shape) {
  const at::Tensor place = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (place * place * 0.43 + 0.9 * static_cast<double>(number + 1)).sin().reshape(shape);
}

TEST(MatricesTest, Apollo) {
  const ApolloOptions channel{.rank = 3, .gap = 7, .scale = 4.0, .adam = kAdam, .draw = Chirp};
  Check<&ApolloRule>(kPeers, "apollo_channel", channel);
  ApolloOptions mini = channel;
  mini.rank = 1;
  mini.scale_by = ApolloScale::kTensor;
  mini.scale_front = true;
  Check<&ApolloRule>(kPeers, "apollo_mini", mini, kVariant);
  ApolloOptions svd = channel;
  svd.source = ApolloSource::kSvd;
  Check<&ApolloRule>(kPeers, "apollo_svd", svd, kVariant);
  ApolloOptions left = channel;
  left.type = ProjectionType::kLeft;
  left.targets = {"down_proj", "k_proj"};
  Check<&ApolloRule>(kPeers, "apollo_left", left, kVariant);
}

// The projection after `steps` steps of a gap of 3.
at::Tensor DrawnProjection(int64_t seed, const char* name, int steps) {
  const comm::Parameters all = {Weight(name, {40, 64})};
  auto native = ApolloRule({.rank = 32, .gap = 3, .seed = seed}, all);
  EXPECT_OK(native);
  const at::Tensor weight = at::zeros({40, 64}), gradient = at::ones({40, 64});
  UpdateRule::State state = native->rule.state(0, weight);
  for (int step = 1; step <= steps; ++step)
    state = native->rule.update(0, weight, gradient, state, 1e-3, step);
  return state.at("left");
}

TEST(MatricesTest, ApolloDrawsNormalNumbersOfSeedNameAndNumber) {
  const at::Tensor drawn = DrawnProjection(7, "model.a.weight", 1) * std::sqrt(32.0);
  const double numbers = static_cast<double>(drawn.numel()), four = 4.0 / std::sqrt(numbers);
  EXPECT_NEAR(drawn.mean().item<double>(), 0.0, four);
  EXPECT_NEAR(drawn.square().mean().item<double>(), 1.0, four * std::sqrt(2.0));
  EXPECT_NEAR(drawn.pow(4).mean().item<double>(), 3.0, four * std::sqrt(96.0));
  const at::Tensor first = DrawnProjection(7, "model.a.weight", 3);
  EXPECT_TRUE(BitEqual(first, DrawnProjection(7, "model.a.weight", 1)));
  EXPECT_FALSE(BitEqual(first, DrawnProjection(7, "model.a.weight", 4)));
  EXPECT_FALSE(BitEqual(first, DrawnProjection(8, "model.a.weight", 1)));
  EXPECT_FALSE(BitEqual(first, DrawnProjection(7, "model.b.weight", 1)));
}

TEST(MatricesTest, Adafactor) {
  Check<&AdafactorRule>(kPeers, "adafactor", AdafactorOptions{});
  Check<&AdafactorRule>(kPeers, "adafactor_torch", AdafactorOptions{.form = AdafactorForm::kTorch},
                        kVariant);
}

TEST(MatricesTest, AdamMini) {
  Check<&AdamMiniRule>(kPeers, "adam_mini",
                       AdamMiniOptions{.hidden_size = 8, .heads = 4, .adam = kAdam});
}

TEST(MatricesTest, Fira) {
  const FiraOptions options{.rank = 3, .gap = 7, .alpha = 0.5, .adam = kAdam};
  Check<&FiraRule>(kPapers, "fira", options);
  FiraOptions reversed = options;
  reversed.type = ProjectionType::kReverseStd;
  Check<&FiraRule>(kPapers, "fira_reverse_std", reversed, kVariant);
}

TEST(MatricesTest, Conda) {
  Check<&CondaRule>(kPapers, "conda", CondaOptions{.gap = 7, .scale = 0.5, .adam = kAdam});
}

TEST(MatricesTest, OnlineSubspace) {
  Check<&OnlineSubspaceRule>(
      kPapers, "online_subspace",
      OnlineSubspaceOptions{
          .rank = 3, .gap = 10.0, .scale = 0.5, .learning_rate = 1e-2, .adam = kAdam});
}

// Of ranks larger than a matrix, and what is kept then.
TEST(MatricesTest, TakesTheSmallerSideWhereTheRankIsLarger) {
  const comm::Parameters all = {Weight("model.a.weight", {3, 9})};
  const at::Tensor weight = at::zeros({3, 9}), gradient = at::arange(27.0).sin().reshape({3, 9});
  auto native = GaloreRule({.rank = 64}, all);
  ASSERT_OK(native);
  UpdateRule::State state = native->rule.state(0, weight);
  EXPECT_EQ(state.at("left").sizes(), at::IntArrayRef({3, 3}));
  EXPECT_EQ(state.at("exp_avg").sizes(), at::IntArrayRef({3, 9}));
  state = native->rule.update(0, weight, gradient, state, 1e-3, 1);
  EXPECT_GT(weight.abs().min().item<double>(), 0.0);
}

TEST(MatricesTest, RefusesWhatCannotBe) {
  const auto refuses = [](const absl::StatusOr<NativeRule>& rule, const char* message) {
    EXPECT_THAT(rule, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refuses(MuonRule({.momentum = 1.0}, {}), "trainer.muon: momentum is 1, wanted 0 or more");
  refuses(GaloreRule({.rank = 0}, {}), "trainer.galore: rank is 0, wanted more than 0");
  refuses(ApolloRule({.type = ProjectionType::kFull}, {}), "type: wanted std, left or right");
  refuses(FiraRule({.type = ProjectionType::kFull}, {}), "trainer.fira: type: wanted one side");
  refuses(AdamMiniRule({.hidden_size = 8, .heads = 4},
                       {Weight("model.layers.0.self_attn.q_proj.weight", {3, 8})}),
          "q_proj.weight has 24 numbers, wanted some heads of 8 x 8 / 4");
  refuses(AdafactorRule({.clip = 0.0}, {}), "trainer.adafactor: clip is 0, wanted more than 0");
  refuses(OnlineSubspaceRule({.gap = 0.0}, {}), "trainer.online_subspace: gap is 0");
}

}  // namespace
}  // namespace moonring::trainer
