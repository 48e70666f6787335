// Optimizers that treat whole matrices equal torch, LLaMA-Factory, galore-torch, apollo-torch,
// adam-mini and Transformers (golden/matrices.json, by make_matrices.py), and implementations of
// papers (golden/matrix_papers.json, by make_matrix_papers.py).

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
#include "trainer/rules/grass.h"
#include "trainer/rules/muon.h"
#include "trainer/rules/online_subspace.h"
#include "trainer/rules/spam.h"
#include "trainer/rules/swan.h"

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
void CheckMatrices(const char* file, const char* name, Options options, RuleBounds bounds = {}) {
  options.weight_decay = kDecay;
  bounds.matrices = true;
  CheckRule(
      file, name, [=](const base::Parameters& all) { return rule_of(options, all); }, bounds);
}

std::shared_ptr<base::Parameter> Weight(const char* name, std::vector<int64_t> shape) {
  return std::make_shared<base::Parameter>(name, at::zeros(shape));
}

// The bounds for a variant of a rule that is checked completely elsewhere.
constexpr RuleBounds kVariant = {.golden_alone = true};

// The bounds for rules that compute an SVD, which is in fp32 even for fp64 weights, as in the
// peers' packages: LAPACK on another machine may round differently (3e-8 measured).
constexpr RuleBounds kSvd = {.fp64 = 1e-6};
constexpr RuleBounds kSvdVariant = {.fp64 = 1e-6, .golden_alone = true};

// Muon's iteration is in bf16 even for fp64 weights: products on another machine may round
// differently.
TEST(MatricesTest, Muon) {
  CheckMatrices<&MuonRule>(kPeers, "muon_original", MuonOptions{.adam = kAdam}, {.fp64 = 1e-5});
  CheckMatrices<&MuonRule>(
      kPeers, "muon_match",
      MuonOptions{
          .scale = MuonScale::kMatchRmsAdamW, .momentum = 0.9, .nesterov = false, .adam = kAdam},
      {.fp64 = 1e-5, .golden_alone = true});
  CheckMatrices<&MuonRule>(
      kPeers, "use_muon",
      MuonOptions{
          .form = MuonForm::kLlamaFactory, .scale = MuonScale::kMatchRmsAdamW, .adam = kAdam},
      {.fp64 = 1e-5, .golden_alone = true});
}

TEST(MatricesTest, MuonInFullPrecision) {
  CheckMatrices<&MuonRule>(kPapers, "muon_fp64", MuonOptions{.bf16 = false, .adam = kAdam},
                           kVariant);
  // The two forms differ by the 1e-7 that is added to the norm.
  CheckMatrices<&MuonRule>(
      kPapers, "muon_fp64",
      MuonOptions{.form = MuonForm::kLlamaFactory, .bf16 = false, .adam = kAdam},
      {.fp64 = 1e-7, .golden_alone = true});
}

GaloreOptions Galore(ProjectionType type, std::vector<std::string> targets = {}) {
  return {.rank = 3, .gap = 7, .scale = 0.5, .type = type, .targets = targets, .adam = kAdam};
}

TEST(MatricesTest, Galore) {
  CheckMatrices<&GaloreRule>(kPeers, "galore_std", Galore(ProjectionType::kStd), kSvd);
  CheckMatrices<&GaloreRule>(kPeers, "galore_reverse_std", Galore(ProjectionType::kReverseStd),
                             kSvdVariant);
  CheckMatrices<&GaloreRule>(kPeers, "galore_left", Galore(ProjectionType::kLeft), kSvdVariant);
  CheckMatrices<&GaloreRule>(kPeers, "galore_right", Galore(ProjectionType::kRight), kSvdVariant);
  // When L and R have just been computed, low(G) is diagonal; the other elements are rounding,
  // which Adam scales up as much as the diagonal.
  CheckMatrices<&GaloreRule>(kPeers, "galore_full", Galore(ProjectionType::kFull),
                             {.fp32 = 1e-2, .fp64 = 1e-2});
  CheckMatrices<&GaloreRule>(kPeers, "galore_targets",
                             Galore(ProjectionType::kStd, {"q_proj", "lm_head"}), kSvdVariant);
}

// Returns the projector that make_matrices.py uses.
at::Tensor ProjectorChirp(const std::string&, int64_t number, at::IntArrayRef shape) {
  const at::Tensor place = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (place * place * 0.43 + 0.9 * static_cast<double>(number + 1)).sin().reshape(shape);
}

TEST(MatricesTest, Apollo) {
  const ApolloOptions channel{
      .rank = 3, .gap = 7, .scale = 4.0, .adam = kAdam, .draw = ProjectorChirp};
  CheckMatrices<&ApolloRule>(kPeers, "apollo_channel", channel);
  ApolloOptions mini = channel;
  mini.rank = 1;
  mini.scale_by = ApolloScale::kTensor;
  mini.scale_front = true;
  CheckMatrices<&ApolloRule>(kPeers, "apollo_mini", mini, kVariant);
  ApolloOptions svd = channel;
  svd.source = ApolloSource::kSvd;
  CheckMatrices<&ApolloRule>(kPeers, "apollo_svd", svd, kSvdVariant);
  ApolloOptions left = channel;
  left.type = ProjectionType::kLeft;
  left.targets = {"down_proj", "k_proj"};
  CheckMatrices<&ApolloRule>(kPeers, "apollo_left", left, kVariant);
}

// Returns the projection after `steps` steps; it is recomputed every 3 steps.
at::Tensor DrawnProjection(int64_t seed, const char* name, int steps) {
  const base::Parameters all = {Weight(name, {40, 64})};
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
  CheckMatrices<&AdafactorRule>(kPeers, "adafactor", AdafactorOptions{});
  CheckMatrices<&AdafactorRule>(kPeers, "adafactor_torch",
                                AdafactorOptions{.form = AdafactorForm::kTorch}, kVariant);
}

TEST(MatricesTest, AdamMini) {
  CheckMatrices<&AdamMiniRule>(kPeers, "adam_mini",
                               AdamMiniOptions{.hidden_size = 8, .heads = 4, .adam = kAdam});
}

TEST(MatricesTest, Fira) {
  const FiraOptions options{.rank = 3, .gap = 7, .alpha = 0.5, .adam = kAdam};
  CheckMatrices<&FiraRule>(kPapers, "fira", options, kSvd);
  FiraOptions reversed = options;
  reversed.type = ProjectionType::kReverseStd;
  CheckMatrices<&FiraRule>(kPapers, "fira_reverse_std", reversed, kSvdVariant);
}

TEST(MatricesTest, Conda) {
  CheckMatrices<&CondaRule>(kPapers, "conda", CondaOptions{.gap = 7, .scale = 0.5, .adam = kAdam},
                            kSvd);
}

TEST(MatricesTest, OnlineSubspace) {
  CheckMatrices<&OnlineSubspaceRule>(
      kPapers, "online_subspace",
      OnlineSubspaceOptions{
          .rank = 3, .gap = 10.0, .scale = 0.5, .learning_rate = 1e-2, .adam = kAdam},
      kSvd);
}

TEST(MatricesTest, Swan) {
  CheckMatrices<&SwanRule>(kPapers, "swan", SwanOptions{.alpha = 0.5, .adam = kAdam});
  // At 0.8 the iteration amplifies rounding by up to 1.8 per step.
  CheckMatrices<&SwanRule>(kPapers, "swan_published",
                           SwanOptions{.alpha = 0.5, .iterations = 10, .beta = 0.8, .adam = kAdam},
                           {.fp32 = 2e-5, .golden_alone = true});
  // Compared with the polar factor from an SVD, to which the iteration converges.
  CheckMatrices<&SwanRule>(kPapers, "swan_exact", SwanOptions{.alpha = 0.5, .adam = kAdam},
                           kVariant);
}

// A constant row has no direction: it gets no update, and all numbers stay finite.
TEST(MatricesTest, SwanTakesConstantRows) {
  const base::Parameters all = {Weight("model.a.weight", {5, 8})};
  auto native = SwanRule({}, all);
  ASSERT_OK(native);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const auto step = [&](const at::Tensor& gradient) {
      const at::Tensor weight = at::zeros(gradient.sizes(), dtype);
      EXPECT_TRUE(native->rule.update(0, weight, gradient, {}, 1.0, 1).empty()) << "a state";
      return weight;
    };
    at::Tensor gradient = at::arange(40.0, dtype).sin().reshape({5, 8});
    gradient[1].fill_(0.1);
    gradient[3].zero_();
    const at::Tensor weight = step(gradient);
    EXPECT_TRUE(weight.isfinite().all().item<bool>());
    for (const int64_t row : {1, 3}) EXPECT_EQ(weight[row].abs().max().item<double>(), 0.0) << row;
    EXPECT_NEAR(weight.norm().item<double>(), 0.05 * std::sqrt(24.0), 1e-6) << "three rows of 8";
    for (const double all_of_it : {0.0, 0.1})
      EXPECT_EQ(step(at::full({5, 8}, all_of_it, dtype)).abs().max().item<double>(), 0.0);
  }
}

constexpr int64_t kSeed = 5;  // make_matrix_papers.py's

TEST(MatricesTest, Grass) {
  const GrassOptions top{.rank = 3, .gap = 7, .alpha = 0.5, .adam = kAdam, .seed = kSeed};
  CheckMatrices<&GrassRule>(kPapers, "grass", top);
  GrassOptions drawn = top;
  drawn.sampling = GrassSampling::kMultinomial;
  CheckMatrices<&GrassRule>(kPapers, "grass_multinomial", drawn);
}

// The mean of P P^T over many random projections is the identity, because rows are weighted by
// their squared factors.
TEST(MatricesTest, GrassDrawsWithoutBias) {
  constexpr int64_t kRows = 6, kRank = 4, kDraws = 4000;
  const base::Parameters all = {Weight("model.a.weight", {kRows, 9})};
  const auto rule = [&](int64_t seed) {
    auto native = GrassRule(
        {.rank = kRank, .gap = 1, .sampling = GrassSampling::kMultinomial, .seed = seed}, all);
    EXPECT_OK(native);
    return std::move(native->rule);
  };
  const UpdateRule drawn = rule(3);
  const at::Tensor weight = at::zeros({kRows, 9}),
                   gradient = at::arange(54.0).sin().reshape({kRows, 9}) *
                              at::arange(1.0, kRows + 1.0).unsqueeze(1);
  UpdateRule::State state = drawn.state(0, weight);
  at::Tensor sum = at::zeros({kRows}, at::kDouble);
  for (int step = 1; step <= kDraws; ++step) {
    state = drawn.update(0, weight, gradient, state, 1e-3, step);
    sum.index_add_(0, state.at("rows"), state.at("factors").to(at::kDouble).square());
  }
  const at::Tensor q = gradient.square().sum(1).to(at::kDouble) / gradient.square().sum();
  const at::Tensor four = (1.0 / q - 1.0).div(kRank * kDraws).sqrt() * 4.0;  // of the mean's spread
  EXPECT_TRUE((sum / kDraws - 1.0).abs().lt(four).all().item<bool>()) << sum / kDraws << four;
  // Equal seed, name and number select the same rows; if one of them differs, so do the rows.
  const auto rows_of = [&](int64_t seed, int step) {
    const UpdateRule again = rule(seed);
    return again.update(0, weight, gradient, again.state(0, weight), 1e-3, step).at("rows");
  };
  EXPECT_TRUE(BitEqual(state.at("rows"), rows_of(3, kDraws)));
  bool other_seed = false, other_number = false;
  for (int step = 1; step <= 8; ++step) {
    other_seed = other_seed || !BitEqual(rows_of(3, step), rows_of(4, step));
    other_number = other_number || !BitEqual(rows_of(3, step), rows_of(3, 1));
  }
  EXPECT_TRUE(other_seed && other_number);
  // With a zero gradient there are no probabilities for choosing rows.
  state = drawn.update(0, weight, at::zeros_like(gradient), state, 1e-3, kDraws + 1);
  EXPECT_TRUE(weight.isfinite().all().item<bool>());
}

TEST(MatricesTest, SpamOfAPartOfEachMatrix) {
  CheckMatrices<&SpamRule>(kPapers, "spam_density",
                           SpamOptions{.beta2 = 0.99,
                                       .threshold = 2.0,
                                       .reset = 8,
                                       .warmup = 4,
                                       .quiet = 2,
                                       .density = 0.3,
                                       .seed = kSeed});
}

// The random mask of a large matrix is computed in several pieces: as many elements as `density`
// states are chosen, evenly spread, and others after each reset.
TEST(MatricesTest, SpamDrawsItsMasks) {
  constexpr double kDensity = 0.25;
  const base::Parameters all = {Weight("model.a.weight", {70, 80})};
  const auto learns = [&](int64_t seed, int step) {  // in that step
    auto native = SpamRule({.reset = 4, .density = kDensity, .seed = seed}, all);
    EXPECT_OK(native);
    const at::Tensor weight = at::zeros({70, 80});
    UpdateRule::State state = native->rule.state(0, weight);
    EXPECT_EQ(state.at("exp_avg").sizes(), at::IntArrayRef({1400}));
    native->rule.update(0, weight, at::ones({70, 80}), state, 1e-3, step);
    return weight.ne(0.0);
  };
  const at::Tensor first = learns(5, 1);
  EXPECT_EQ(first.sum().item<int64_t>(), 1400);
  EXPECT_TRUE(BitEqual(first, learns(5, 3)));
  const at::Tensor second = learns(5, 4);
  for (const int64_t dim : {0, 1}) {  // by columns and by rows
    const double numbers = static_cast<double>(first.size(dim)),
                 spread = std::sqrt(numbers * kDensity * (1.0 - kDensity));
    const at::Tensor off = (first.sum(dim).to(at::kDouble) - numbers * kDensity).abs();
    EXPECT_LT(off.max().item<double>(), 4.5 * spread);
  }
  // Independent masks share a sixteenth of their elements.
  for (const at::Tensor& other : {second, learns(6, 1)}) {
    const double both = first.logical_and(other).sum().item<double>();
    EXPECT_NEAR(both, 350.0, 4.5 * std::sqrt(350.0));
  }
}

// A rank that is greater than a matrix's smaller side is reduced to that side, also in the state.
TEST(MatricesTest, TakesTheSmallerSideWhereTheRankIsLarger) {
  const base::Parameters all = {Weight("model.a.weight", {3, 9})};
  const at::Tensor weight = at::zeros({3, 9}), gradient = at::arange(27.0).sin().reshape({3, 9});
  auto native = GaloreRule({.rank = 64}, all);
  ASSERT_OK(native);
  UpdateRule::State state = native->rule.state(0, weight);
  EXPECT_EQ(state.at("left").sizes(), at::IntArrayRef({3, 3}));
  EXPECT_EQ(state.at("exp_avg").sizes(), at::IntArrayRef({3, 9}));
  state = native->rule.update(0, weight, gradient, state, 1e-3, 1);
  EXPECT_GT(weight.abs().min().item<double>(), 0.0);
}

TEST(MatricesTest, RefusesInvalidInput) {
  const auto refuses = [](const absl::StatusOr<NativeRule>& rule, const char* message) {
    EXPECT_THAT(rule, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refuses(MuonRule({.momentum = 1.0}, {}), "trainer.muon: momentum is 1, expected 0 or more");
  refuses(GaloreRule({.rank = 0}, {}), "trainer.galore: rank is 0, expected more than 0");
  refuses(ApolloRule({.type = ProjectionType::kFull}, {}), "type: expected std, left or right");
  refuses(FiraRule({.type = ProjectionType::kFull}, {}), "trainer.fira: type: expected one side");
  refuses(AdamMiniRule({.hidden_size = 8, .heads = 4},
                       {Weight("model.layers.0.self_attn.q_proj.weight", {3, 8})}),
          "q_proj.weight has 24 numbers, expected some heads of 8 x 8 / 4");
  refuses(AdafactorRule({.clip = 0.0}, {}), "trainer.adafactor: clip is 0, expected more than 0");
  refuses(SwanRule({.beta = 0.9}, {}), "trainer.swan: ns_beta is 0.9, expected more than 0, 0.866");
  refuses(SwanRule({.iterations = 0}, {}), "trainer.swan: ns_steps is 0, expected more than 0");
  refuses(GrassRule({.rank = 0}, {}), "trainer.grass: rank is 0, expected more than 0");
  refuses(SpamRule({.density = 0.0}, {}), "trainer.spam: density is 0, expected more than 0, 1 at");
  refuses(SpamRule({.density = 1.5}, {}),
          "trainer.spam: density is 1.5, expected more than 0, 1 at");
  refuses(OnlineSubspaceRule({.gap = 0.0}, {}), "trainer.online_subspace: gap is 0");
}

}  // namespace
}  // namespace moonring::trainer
