// Bands (queries that each attend to a range of keys): plans with bands, and strategies in which a
// single kernel call computes everything. Runs on the CPU, with CPU implementations of the GPU's
// kernels.

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/looped_varlen_attention.h"
#include "attention/kernels/reference_block_attention.h"
#include "attention/kernels/tile_plan.h"
#include "attention/kernels/varlen_tile_runner.h"
#include "attention/strategy/hybrid_attention.h"
#include "attention/strategy/strategies.h"
#include "base/autograd/custom_function.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/cuda_stand_ins.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;

at::Tensor HeadsFirst(const at::Tensor& rows, int64_t repeats) {
  return rows.repeat_interleave(repeats, 1).transpose(0, 1);
}

// Computes bands from their definition (tile.h) in the inputs' dtype, and other tiles one by one.
class WrittenBands final : public VarlenAttention {
 public:
  absl::string_view name() const override { return "written bands"; }
  bool TakesBands(at::ScalarType, int64_t, const ScoreFunction&) const override { return true; }

  mutable std::vector<TileKind> forwards, backwards;

 private:
  struct One {
    at::Tensor q, k, v, p;
    int64_t repeats;
  };

  static at::Tensor Part(const at::Tensor& rows, const std::vector<int64_t>& offsets, size_t i) {
    return rows.narrow(0, offsets[i], offsets[i + 1] - offsets[i]);
  }

  static at::Tensor ScoresOf(const VarlenTiles& tiles, size_t i) {
    const at::Tensor q = Part(tiles.q_MHD, tiles.query_offsets, i),
                     k = Part(tiles.k_NKD, tiles.key_offsets, i);
    const int64_t m = q.size(0), n = k.size(0);
    const at::Tensor place = at::arange(m).unsqueeze(1) + (n - m), key = at::arange(n).unsqueeze(0);
    at::Tensor hidden = key > place;
    if (tiles.window > 0) hidden = hidden.logical_or(key <= place - tiles.window);
    const int64_t repeats = q.size(1) / k.size(1);
    return at::matmul(HeadsFirst(q, 1), HeadsFirst(k, repeats).transpose(1, 2))
        .mul(tiles.score.scale)
        .masked_fill(hidden, -INFINITY);
  }

  PartialAttention RunForward(const VarlenTiles& tiles) const override {
    forwards.push_back(tiles.kind);
    if (tiles.kind != TileKind::kBand) return looped_.Forward(tiles);
    std::vector<at::Tensor> outs, lses;
    for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
      const at::Tensor scores = ScoresOf(tiles, i), v = Part(tiles.v_NKD, tiles.key_offsets, i);
      outs.push_back(
          at::matmul(scores.softmax(2), HeadsFirst(v, scores.size(0) / v.size(1))).transpose(0, 1));
      lses.push_back(at::logsumexp(scores, {2}).t());
    }
    return {at::cat(outs), at::cat(lses)};
  }

  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout, const at::Tensor& out,
                            const at::Tensor& lse) const override {
    backwards.push_back(tiles.kind);
    if (tiles.kind != TileKind::kBand) return looped_.Backward(tiles, dout, out, lse);
    std::vector<at::Tensor> dqs, dks, dvs;
    for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
      const auto of_queries = [&](const at::Tensor& rows) {
        return Part(rows, tiles.query_offsets, i);
      };
      const at::Tensor k = Part(tiles.k_NKD, tiles.key_offsets, i),
                       v = Part(tiles.v_NKD, tiles.key_offsets, i);
      const int64_t repeats = tiles.q_MHD.size(1) / k.size(1);
      const at::Tensor p = at::exp(ScoresOf(tiles, i) - of_queries(lse).t().unsqueeze(2)),
                       d = HeadsFirst(of_queries(dout), 1);
      const at::Tensor delta = (d * HeadsFirst(of_queries(out), 1)).sum(2, true);
      const at::Tensor ds =
          p * (at::matmul(d, HeadsFirst(v, repeats).transpose(1, 2)) - delta) * tiles.score.scale;
      const auto sum = [&](const at::Tensor& of_heads) {
        return of_heads.unflatten(0, {-1, repeats}).sum(1).transpose(0, 1);
      };
      dqs.push_back(at::matmul(ds, HeadsFirst(k, repeats)).transpose(0, 1));
      dks.push_back(sum(at::matmul(ds.transpose(1, 2), HeadsFirst(of_queries(tiles.q_MHD), 1))));
      dvs.push_back(sum(at::matmul(p.transpose(1, 2), d)));
    }
    return {at::cat(dqs), at::cat(dks), at::cat(dvs)};
  }

  LoopedVarlenAttention looped_{std::make_shared<ReferenceBlockAttention>()};
};

class BandsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(6); }
  torch::Library kernels_ = CudaStandIns();
};

// ---- plans

using PairSet = std::multiset<std::pair<int64_t, int64_t>>;

PairSet PairsOf(const TilePlan& plan) {
  PairSet pairs;
  for (const QueryBlock& block : plan.blocks) {
    for (const TileRows& tile : block.tiles) {
      const int64_t shift = tile.keys.rows() - tile.queries.rows();
      for (int64_t i = 0; i < tile.queries.rows(); ++i) {
        for (int64_t j = 0; j < tile.keys.rows(); ++j) {
          const bool seen = tile.kind == TileKind::kFull ||
                            (tile.kind == TileKind::kCausal && j <= i) ||
                            (tile.kind == TileKind::kWindowEdge && j >= i) ||
                            (tile.kind == TileKind::kBand && j <= i + shift &&
                             (tile.window == 0 || j > i + shift - tile.window));
          if (seen) pairs.insert({tile.queries.begin + i, tile.keys.begin + j});
        }
      }
    }
  }
  return pairs;
}

TEST_F(BandsTest, AreTheSamePairsAsTilesOfSpans) {
  for (const std::string& name : NamesOnRanks()) {
    for (const int ranks : {1, 3, 4}) {
      const Strategy strategy = *ResolveStrategy({.name = name}, ranks);
      const auto layout =
          *comm::Layout::Create({5, 1, 120, 0, 33, 70, 7}, strategy.division, CausalTileArea);
      for (const int64_t window : {0, 1, 20, 64, 500}) {
        for (int context = 0; context < strategy.division.contexts; ++context) {
          const auto plan = [&](TileGrid grid) {
            return strategy.transport->Plan(*layout, context, {.window = window, .grid = grid});
          };
          const ContextPlan bands = plan(TileGrid::kBands), spans = plan(TileGrid::kSpans);
          ASSERT_EQ(bands.steps.size(), spans.steps.size());
          EXPECT_DOUBLE_EQ(bands.area(), spans.area()) << name << ", window " << window;
          for (size_t s = 0; s < bands.steps.size(); ++s) {
            EXPECT_EQ(PairsOf(bands.steps[s].tiles), PairsOf(spans.steps[s].tiles))
                << name << " of " << ranks << ", window " << window << ", step " << s;
          }
        }
      }
    }
  }
}

// ---- strategies

std::vector<Problem> BandProblems(at::ScalarType type) {
  const std::vector<int64_t> many = {1, 2, 63, 0, 200, 64, 65, 0, 30};
  return {RandomProblem(many, {9, 3, 16}, type),         RandomProblem(many, {7, 1, 8}, type),
          RandomProblem(many, {4, 2, 16}, type, 50),     RandomProblem({300}, {9, 3, 8}, type, 129),
          RandomProblem({97, 100}, {4, 4, 8}, type, 4),  RandomProblem({3}, {4, 2, 8}, type),
          RandomProblem({200, 33}, {7, 1, 8}, type, 90), RandomProblem({64}, {4, 2, 8}, type, 64)};
}

// In fp64 only errors of the plan and of the code around the calls remain: bound 1e-12, as in
// conformance_test.
TEST_F(BandsTest, EveryStrategyEqualsTheDefinition) {
  const std::vector<Problem> problems = BandProblems(at::kDouble);
  const TileRunners runners = [](const at::Device&) {
    return std::make_shared<VarlenTileRunner>(std::make_shared<WrittenBands>());
  };
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const std::string& name : NamesOnRanks()) {
      const std::vector<Solution> got = SolveAll({.name = name}, ranks, problems, runners);
      for (size_t i = 0; i < problems.size(); ++i) {
        const Solution want = Written(problems[i]);
        for (const auto member : kMembers) {
          EXPECT_TRUE(RelativeError(got[i].*member, want.*member, 1e-12))
              << name << " on " << ranks << ", problem " << i;
        }
      }
    }
  }
}

// A rank that has all keys needs one call for the forward and one for the backward, with any
// window; all-gather needs one per slice of heads.
TEST_F(BandsTest, OneCallWhereOneRankHasAllKeys) {
  for (const std::string name : {"dense", "ulysses", "all-gather"}) {
    const int ranks = name == "dense" ? 1 : 2;
    for (const int64_t window : {0, 50}) {
      const Problem problem = RandomProblem({5, 120, 33}, {4, 2, 8}, at::kDouble, window);
      std::vector<std::shared_ptr<WrittenBands>> kernels;
      std::mutex mutex;
      SolveAll({.name = name}, ranks, {problem}, [&](const at::Device&) {
        const std::lock_guard<std::mutex> lock(mutex);
        kernels.push_back(std::make_shared<WrittenBands>());
        return std::make_shared<VarlenTileRunner>(kernels.back());
      });
      ASSERT_EQ(static_cast<int>(kernels.size()), ranks);
      const std::vector<TileKind> want(name == "all-gather" ? 2 : 1, TileKind::kBand);
      for (const auto& kernel : kernels) {
        EXPECT_EQ(kernel->forwards, want) << name << ", window " << window;
        EXPECT_EQ(kernel->backwards, want) << name << ", window " << window;
      }
    }
  }
}

std::shared_ptr<const TileRunner> FlashRunner(const at::Device&) {
  return std::make_shared<VarlenTileRunner>(std::make_shared<CudaVarlenAttention>());
}

// bf16 results differ from fp64 by at most one rounding of each product's factors: bound 8e-3, as
// in varlen_test.
TEST_F(BandsTest, FlashTakesThemInBfloat16) {
  for (const Problem& problem : BandProblems(at::kBFloat16)) {
    if (problem.q.size(0) <= 3) continue;  // gradients would be small differences of large terms
    const Solution want = Written(problem);
    for (const std::string name : {"dense", "ulysses", "all-gather", "zigzag-ring"}) {
      const Solution got =
          SolveAll({.name = name}, name == "dense" ? 1 : 3, {problem}, FlashRunner)[0];
      for (const auto member : kMembers)
        EXPECT_LT(ErrorOf((got.*member).to(at::kDouble), want.*member), 8e-3)
            << name << " " << Said(problem);
    }
  }
}

// If the workspace is limited, a few kv heads are processed at a time: more calls, the same
// numbers.
TEST_F(BandsTest, HeadsInSlicesWhereTheWorkspaceIsBounded) {
  // 140 rows x 16 x 8 bytes x 12 query heads; 3 query heads for each kv head.
  const Problem problem = RandomProblem({40, 100}, {12, 4, 16}, at::kBFloat16, 30);
  const auto solve = [&](int64_t bytes) {
    return SolveAll({.name = "dense"}, 1, {problem}, [&](const at::Device&) {
      return std::make_shared<VarlenTileRunner>(std::make_shared<CudaVarlenAttention>(), bytes);
    })[0];
  };
  const Solution whole = solve(int64_t{1} << 30);
  for (const int64_t bytes : {140 * 16 * 8 * 12, 140 * 16 * 8 * 6, 140 * 16 * 8 * 5, 1}) {
    const Solution got = solve(bytes);
    for (const auto member : kMembers)
      EXPECT_TRUE(testing::BitEqual(got.*member, whole.*member)) << bytes;
  }
}

// Gradients of the leaves, and the memory addresses of q, k and v.
struct Placed {
  std::vector<at::Tensor> gradients;
  std::vector<const void*> inputs;
};

// Computes q, k and v from the autograd leaves. In the function below, `held` receives q, k and v,
// so that they stay referenced during the backward.
using Making = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& leaves)>;

Placed DifferentiatedBands(const Problem& problem, int64_t workspace_bytes, const Making& make,
                           std::vector<at::Tensor>* held = nullptr, bool twice = false) {
  testing::ConnectedRanks ranks(1);
  Placed placed;
  ranks.Run([&](std::shared_ptr<comm::World> world) {
    auto attention =
        CreateAttention({{.name = "dense"}, world->communicator(), [&](const at::Device&) {
                           return std::make_shared<VarlenTileRunner>(
                               std::make_shared<CudaVarlenAttention>(), workspace_bytes);
                         }});
    ASSERT_OK(attention);
    auto plan = (*attention)->Plan(MakeLayout(**attention, problem.lengths), {});
    ASSERT_OK(plan);
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& rows : {problem.q, problem.k, problem.v})
      leaves.push_back(rows.detach().clone().requires_grad_());
    at::Tensor out;
    {
      const at::AutoGradMode enable(true);
      std::vector<at::Tensor> made = make(leaves);
      for (const at::Tensor& rows : made) placed.inputs.push_back(rows.const_data_ptr());
      out = (*plan)->Forward(made[0], made[1], made[2], problem.rule(), nullptr);
      if (held != nullptr) *held = std::move(made);
    }
    if (twice) base::Differentiate({out}, leaves, {problem.dout}, {.retain_graph = true});
    placed.gradients = base::Differentiate({out}, leaves, {problem.dout});
  });
  return placed;
}

std::vector<at::Tensor> Copies(const std::vector<at::Tensor>& leaves) {
  return {leaves[0].clone(), leaves[1].clone(), leaves[2].clone()};
}
// q, k and v as views of other tensors.
std::vector<at::Tensor> Views(const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> views;
  for (const at::Tensor& leaf : leaves) views.push_back(leaf.flatten(1).clone().view(leaf.sizes()));
  return views;
}
// q, k and v as slices of one tensor.
std::vector<at::Tensor> PartsOfOne(const std::vector<at::Tensor>& leaves) {
  return at::cat(leaves, 1).split_with_sizes({12, 4, 4}, 1);
}

// With a limited workspace, each gradient is written over its input if nothing else refers to the
// input's memory; otherwise the input stays unchanged. The results are bit-identical to those of a
// single call, so no slice of heads reads what another slice has written.
TEST_F(BandsTest, GradientsTakeThePlaceOfInputsThatNobodyElseHas) {
  const Problem problem = RandomProblem({40, 100}, {12, 4, 16}, at::kBFloat16, 30);
  const Placed whole = DifferentiatedBands(problem, int64_t{1} << 30, Copies);
  struct Way {
    std::string name;
    Making make;
    bool held, twice, takes;
  };
  // Keeps the memory of q, k and v alive: otherwise the allocator could use it for the joined
  // gradients, which would then have the address of an input.
  c10::Storage kept;
  const auto kept_parts = [&kept](const std::vector<at::Tensor>& leaves) {
    std::vector<at::Tensor> parts = PartsOfOne(leaves);
    kept = parts[0].storage();
    return parts;
  };
  const std::vector<Way> ways = {
      {"copies", Copies, false, false, true},
      {"views", Views, false, false, true},
      {"held copies", Copies, true, false, false},
      {"held views", Views, true, false, false},
      {"after a backward that kept the graph", Copies, false, true, true},
      {"parts of one", kept_parts, false, false, false},
      {"the leaves", [](const auto& leaves) { return leaves; }, false, false, false}};
  for (const int64_t bytes : {140 * 16 * 8 * 6, 1}) {
    for (const Way& way : ways) {
      std::vector<at::Tensor> held;
      const Placed got =
          DifferentiatedBands(problem, bytes, way.make, way.held ? &held : nullptr, way.twice);
      const at::Tensor inputs[] = {problem.q, problem.k, problem.v};
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(testing::BitEqual(got.gradients[i], whole.gradients[i]))
            << way.name << ", " << bytes << ", d"
            << "qkv"[i];
        EXPECT_EQ(got.gradients[i].const_data_ptr() == got.inputs[i], way.takes)
            << way.name << ", " << bytes << ", d"
            << "qkv"[i];
        EXPECT_TRUE(!way.held || testing::BitEqual(held[i].detach(), inputs[i])) << way.name;
      }
    }
  }
}

// The kernel's output, without a conversion, is both the result and the tensor saved for backward.
// The same holds for the backward's results.
TEST_F(BandsTest, ResultsStayInTheKernelsDtype) {
  testing::ConnectedRanks ranks(1);
  const Problem problem = RandomProblem({40, 100}, {4, 2, 16}, at::kBFloat16, 30);
  ranks.Run([&](std::shared_ptr<comm::World> world) {
    auto attention = CreateAttention({{.name = "dense"}, world->communicator(), FlashRunner});
    ASSERT_OK(attention);
    const auto layout = MakeLayout(**attention, problem.lengths);
    auto plan = (*attention)->Plan(layout, {});
    ASSERT_OK(plan);
    KeptAttention kept;
    const at::Tensor out = (*plan)->Forward(problem.q, problem.k, problem.v, problem.rule(), &kept);
    ASSERT_EQ(kept.tensors().size(), 2);
    EXPECT_TRUE(kept.tensors()[0].is_alias_of(out));
    EXPECT_EQ(kept.tensors()[0].scalar_type(), at::kBFloat16);
    EXPECT_EQ(kept.tensors()[1].scalar_type(), at::kFloat);
  });
}

}  // namespace
}  // namespace moonring::attention
