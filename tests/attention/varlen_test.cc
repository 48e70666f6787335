// Attention calls over documents of different lengths: VarlenAttention, and whole strategies
// through VarlenTileRunner. Runs on the CPU, with CPU implementations of the GPU's kernels.

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/device_tile_runner.h"
#include "attention/kernels/explicit_varlen_attention.h"
#include "attention/kernels/looped_varlen_attention.h"
#include "attention/kernels/mask.h"
#include "attention/kernels/reference_block_attention.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/tile_plan.h"
#include "attention/kernels/varlen_tile_runner.h"
#include "attention/strategy/hybrid_attention.h"
#include "attention/strategy/ring_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/cuda_stand_ins.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"

namespace moonring::attention {
namespace {

using moonring::testing::BitEqual;
using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;
using ::testing::HasSubstr;

// [rows, heads, D] -> [heads, rows, D].
at::Tensor ByHead(const at::Tensor& rows, int64_t repeats = 1) {
  return rows.repeat_interleave(repeats, 1).transpose(0, 1);
}

// ---- VarlenAttention

VarlenTiles RandomTiles(TileKind kind, const Heads& heads, at::ScalarType type,
                        const std::vector<int64_t>& queries = {33, 1, 64, 7}, double softcap = 0.0,
                        const std::vector<int64_t>& keys_of_full = {5, 40, 1, 64}) {
  const std::vector<int64_t> keys = kind == TileKind::kFull ? keys_of_full : queries;
  VarlenTiles tiles{.query_offsets = {0},
                    .key_offsets = {0},
                    .kind = kind,
                    .score = {1.0 / std::sqrt(static_cast<double>(heads.head_dim)), softcap}};
  for (const int64_t rows : queries)
    tiles.query_offsets.push_back(tiles.query_offsets.back() + rows);
  for (const int64_t rows : keys) tiles.key_offsets.push_back(tiles.key_offsets.back() + rows);
  const auto random = [&](int64_t rows, int64_t of, int64_t head_dim) {
    return at::randn({rows, of, head_dim}, at::kDouble).to(type);
  };
  tiles.q_MHD = random(tiles.query_offsets.back(), heads.heads, heads.head_dim);
  tiles.k_NKD = random(tiles.key_offsets.back(), heads.kv_heads, heads.head_dim);
  tiles.v_NKD = random(tiles.key_offsets.back(), heads.kv_heads, heads.of_value());
  return tiles;
}

at::Tensor RandomDout(const VarlenTiles& tiles) {
  return at::randn(OutShape(tiles.q_MHD, tiles.v_NKD), tiles.q_MHD.options());
}

struct Answer {
  at::Tensor out, lse, dq, dk, dv;
  std::array<at::Tensor, 5> all() const { return {out, lse, dq, dk, dv}; }
};

// Computes attention tile by tile as a softmax over whole rows, with LibTorch's autograd in fp64.
Answer ByAutograd(const VarlenTiles& tiles, const at::Tensor& dout) {
  const auto leaf = [](const at::Tensor& rows) {
    return rows.to(at::kDouble).clone().requires_grad_();
  };
  const at::Tensor q = leaf(tiles.q_MHD), k = leaf(tiles.k_NKD), v = leaf(tiles.v_NKD);
  std::vector<at::Tensor> outs, lses;
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const int64_t rows = tiles.query_offsets[i + 1] - tiles.query_offsets[i],
                  keys = tiles.key_offsets[i + 1] - tiles.key_offsets[i];
    const auto of_keys = [&](const at::Tensor& all) {
      return ByHead(all.narrow(0, tiles.key_offsets[i], keys), q.size(1) / k.size(1));
    };
    at::Tensor scores =
        at::matmul(ByHead(q.narrow(0, tiles.query_offsets[i], rows)), of_keys(k).transpose(1, 2))
            .mul(tiles.score.scale);
    if (tiles.score.softcap > 0)
      scores = (scores / tiles.score.softcap).tanh() * tiles.score.softcap;
    const at::Tensor all = at::ones({rows, keys}, at::kBool);
    if (tiles.kind != TileKind::kFull)
      scores = scores.masked_fill(tiles.kind == TileKind::kCausal ? all.triu(1) : all.tril(-1),
                                  -INFINITY);
    outs.push_back(at::matmul(scores.softmax(2), of_keys(v)).transpose(0, 1));
    lses.push_back(at::logsumexp(scores, {2}).t());
  }
  const auto gradients = torch::autograd::grad({at::cat(outs)}, {q, k, v}, {dout.to(at::kDouble)});
  return {at::cat(outs).detach(), at::cat(lses).detach(), gradients[0], gradients[1], gradients[2]};
}

Answer AnswerOf(const VarlenAttention& attention, const VarlenTiles& tiles,
                const at::Tensor& dout) {
  const PartialAttention part = attention.Forward(tiles);
  const TileGradients gradients = attention.Backward(tiles, dout, part.out_MHD, part.lse_MH);
  return {part.out_MHD, part.lse_MH, gradients.dq_MHD, gradients.dk_NKD, gradients.dv_NKD};
}

class VarlenTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }

  torch::Library kernels_ = CudaStandIns();

  // Bounds: 1e-14 (fp64) and 2e-6 (fp32), as in block_attention_test. bf16: the rounding of out,
  // and for gradients also that of the factors out and p, 2e-3 each.
  static void ExpectDefinition(const VarlenAttention& attention, at::ScalarType type,
                               const Heads& heads, double softcap = 0.0) {
    const double bound = type == at::kDouble ? 1e-14 : type == at::kFloat ? 2e-6 : 8e-3;
    for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
      const VarlenTiles tiles = RandomTiles(kind, heads, type, {33, 1, 64, 7}, softcap);
      const at::Tensor dout = RandomDout(tiles);
      const auto got = AnswerOf(attention, tiles, dout).all(), want = ByAutograd(tiles, dout).all();
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(RelativeError(got[i], want[i], bound))
            << "result " << i << " of kind " << static_cast<int>(kind) << ", " << type << ", D "
            << heads.head_dim << " and " << heads.of_value() << ", softcap " << softcap;
        // Results are in the kernel's dtype; lse is in AccumulateType.
        EXPECT_TRUE(got[i].scalar_type() == AccumulateType(type) ||
                    (i != 1 && got[i].scalar_type() == type));
      }
    }
  }
};

TEST_F(VarlenTest, LoopedEqualsTheDefinition) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const double softcap : {0.0, 1.5}) {
      ExpectDefinition(LoopedVarlenAttention(std::make_shared<ReferenceBlockAttention>()), type,
                       {6, 2, 16}, softcap);
      ExpectDefinition(LoopedVarlenAttention(std::make_shared<CpuBlockAttention>()), type,
                       {6, 2, 16}, softcap);
      ExpectDefinition(LoopedVarlenAttention(std::make_shared<CpuBlockAttention>()), type,
                       {6, 2, 16, 9}, softcap);
    }
  }
}

TEST_F(VarlenTest, CudaAroundItsKernelsEqualsTheDefinition) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Heads& heads : std::vector<Heads>{{6, 2, 16},
                                                 {4, 4, 7},
                                                 {3, 1, 64},
                                                 {2, 2, 260},
                                                 {6, 2, 24, 16},
                                                 {4, 4, 12, 6},
                                                 {3, 1, 7, 40},
                                                 {2, 2, 64, 260}}) {
      // The kernels have no softcap. If a call with a softcap reached them, the result would be
      // wrong.
      for (const double softcap : {0.0, 1.5})
        ExpectDefinition(CudaVarlenAttention(), type, heads, softcap);
    }
  }
}

// VarlenAttention by LibTorch's operators equals the definition, for tiles of one or many lengths,
// in one call, in some, or almost one call per tile. Bounds: 1e-14 and 2e-6.
TEST_F(VarlenTest, ExplicitEqualsTheDefinitionInBatchesOfAnySize) {
  struct Lengths {
    std::vector<int64_t> queries, keys_of_full;
  };
  const std::vector<Lengths> all = {{{33, 1, 150, 64, 7, 200, 30}, {5, 40, 170, 64, 1, 3, 300}},
                                    {{16, 16, 16}, {8, 8, 8}},
                                    {{16, 16, 9, 16}, {8, 8, 8, 8}},
                                    {{300}, {1}},
                                    {{1}, {400}}};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
      for (const Lengths& lengths : all) {
        for (const double softcap : {0.0, 1.5}) {
          const VarlenTiles tiles =
              RandomTiles(kind, {6, 2, 16, lengths.queries.size() > 1 ? 16 : 10}, type,
                          lengths.queries, softcap, lengths.keys_of_full);
          const at::Tensor dout = RandomDout(tiles);
          const auto want = ByAutograd(tiles, dout).all();
          for (const int64_t score_bytes : {int64_t{1} << 30, int64_t{1} << 20, int64_t{1} << 10}) {
            const auto got = AnswerOf(ExplicitVarlenAttention(score_bytes), tiles, dout).all();
            for (size_t i = 0; i < got.size(); ++i) {
              // With a single key the softmax is constant: dq and dk are 0 except for rounding.
              const bool is_rounding = i >= 2 && i <= 3 && want[i].norm().item<double>() < 1e-12;
              EXPECT_TRUE(is_rounding ||
                          RelativeError(got[i], want[i], type == at::kDouble ? 1e-14 : 2e-6))
                  << "result " << i << " of kind " << static_cast<int>(kind) << ", " << type << ", "
                  << lengths.queries.size() << " tiles, softcap " << softcap << ", " << score_bytes
                  << " bytes";
              EXPECT_TRUE(got[i].isfinite().all().item<bool>());
            }
          }
        }
      }
    }
  }
}

// Tiles with a single query work too. Flash attention has another code path for calls that consist
// only of such tiles, which its CPU implementation rejects.
TEST_F(VarlenTest, CudaTakesOneQueryATile) {
  const VarlenTiles tiles = RandomTiles(TileKind::kFull, {6, 2, 16}, at::kBFloat16, {1, 1, 1, 1});
  const at::Tensor dout = at::randn_like(tiles.q_MHD);
  const auto got = AnswerOf(CudaVarlenAttention(), tiles, dout).all(),
             want = ByAutograd(tiles, dout).all();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(RelativeError(got[i], want[i], 8e-3)) << i;
}

TEST_F(VarlenTest, CudaTakesAnyStrides) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t value_dim : {16, 8}) {
      const VarlenTiles tiles = RandomTiles(TileKind::kWindowEdge, {6, 2, 16, value_dim}, type);
      const at::Tensor dout = RandomDout(tiles);
      const auto cut_out = [](const at::Tensor& rows) {
        return at::constant_pad_nd(rows, {3, 5, 1, 2}, NAN).slice(1, 1, -2).slice(2, 3, -5);
      };
      VarlenTiles strided = tiles;
      for (at::Tensor VarlenTiles::*rows :
           {&VarlenTiles::q_MHD, &VarlenTiles::k_NKD, &VarlenTiles::v_NKD})
        strided.*rows = cut_out(tiles.*rows);
      const auto got = AnswerOf(CudaVarlenAttention(), strided, cut_out(dout)).all(),
                 want = AnswerOf(CudaVarlenAttention(), tiles, dout).all();
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(BitEqual(got[i], want[i]));
    }
  }
}

TEST_F(VarlenTest, RefusesWhatKernelsDoNotCheck) {
  const LoopedVarlenAttention attention(std::make_shared<ReferenceBlockAttention>());
  const auto message = [&](const VarlenTiles& tiles) -> std::string {
    try {
      attention.Forward(tiles);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  VarlenTiles tiles = RandomTiles(TileKind::kFull, {6, 2, 8}, at::kFloat);
  tiles.kind = TileKind::kCausal;
  EXPECT_THAT(message(tiles), HasSubstr("masked tile 0 is not square: 33 queries and 5 keys"));
  tiles = RandomTiles(TileKind::kFull, {6, 2, 8}, at::kFloat);
  tiles.query_offsets[1] = 0;
  EXPECT_THAT(message(tiles), HasSubstr("tile 0 has 0 queries and 5 keys"));
  tiles.query_offsets.pop_back();
  EXPECT_THAT(message(tiles), HasSubstr("4 offsets of queries, 5 of keys"));
  tiles.key_offsets.pop_back();
  EXPECT_THAT(message(tiles),
              HasSubstr("from 0 to 98 and from 0 to 46 for 105 queries and 110 keys"));
  EXPECT_THAT(message(RandomTiles(TileKind::kFull, {5, 2, 8}, at::kFloat)),
              HasSubstr("5 query heads are no multiple of 2"));
}

// ---- VarlenTileRunner

std::shared_ptr<const TileRunner> Looped(at::ScalarType type) {
  std::shared_ptr<const BlockAttention> block = std::make_shared<CpuBlockAttention>();
  if (type == at::kDouble) block = std::make_shared<ReferenceBlockAttention>();
  return std::make_shared<VarlenTileRunner>(std::make_shared<LoopedVarlenAttention>(block));
}

// Problems with numbers of heads that 2 and 3 do not divide, empty documents, ranks without tokens,
// softcaps, and windows smaller than, equal to and larger than documents.
std::vector<Problem> ManyProblems(at::ScalarType type) {
  const std::vector<int64_t> many = {1, 2, 63, 0, 200, 64, 65, 0, 30};
  return {RandomProblem(many, {9, 3, 16}, type),
          RandomProblem(many, {7, 1, 8}, type),
          RandomProblem(many, {4, 2, 16}, type, 50),
          RandomProblem({300}, {6, 3, 8}, type, 1),
          RandomProblem({300}, {9, 3, 8}, type, 129),
          RandomProblem({97, 100}, {4, 4, 7}, type, 4),
          RandomProblem({200, 33}, {7, 1, 8}, type, 90),
          RandomProblem({3}, {4, 2, 8}, type),
          RandomProblem(many, {9, 3, 16}, type, 0, 1.5),
          RandomProblem(many, {9, 3, 24, 16}, type, 50),
          RandomProblem(many, {7, 1, 8, 20}, type),
          RandomProblem({300}, {7, 1, 8}, type, 129, 1.5)};
}

void ExpectAll(const TileRunners& runners, at::ScalarType type, double bound) {
  const std::vector<Problem> problems = ManyProblems(type);
  std::vector<Solution> want;
  for (const Problem& problem : problems) want.push_back(Written(problem));
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const std::string& name : NamesOnRanks()) {
      const std::vector<Solution> got = SolveAll({.name = name}, ranks, problems, runners);
      for (size_t i = 0; i < problems.size(); ++i) {
        for (int m = 0; m < 4; ++m) {
          const at::Tensor &a = got[i].*kMembers[m], &b = want[i].*kMembers[m];
          if (problems[i].window != 1) {
            EXPECT_TRUE(RelativeError(a, b, bound))
                << name << " on " << ranks << ", problem " << i << ", " << kNames[m];
          } else {
            EXPECT_LT((a - b).abs().max().item<double>(), bound)
                << name << " on " << ranks << ", " << kNames[m];  // one key: rounding errors
          }
        }
      }
    }
  }
}

TEST_F(VarlenTest, EveryStrategyInDouble) {
  ExpectAll([](const at::Device&) { return Looped(at::kDouble); }, at::kDouble, 1e-12);
}

TEST_F(VarlenTest, EveryStrategyInFloat) {
  ExpectAll([](const at::Device&) { return Looped(at::kFloat); }, at::kFloat, 2e-6);
}

std::shared_ptr<const TileRunner> CudaRunner(const at::Device&) {
  return std::make_shared<VarlenTileRunner>(std::make_shared<CudaVarlenAttention>());
}

TEST_F(VarlenTest, EveryStrategyAroundTheKernelsOfAGpuInFloat) {
  ExpectAll(CudaRunner, at::kFloat, 2e-6);
}

// The error in bf16 relative to fp64 is at most twice (out) or three times (gradients) that of one
// rank.
TEST_F(VarlenTest, StrategiesAroundTheKernelsOfAGpuInBfloat16) {
  const std::vector<Problem> problems = {
      RandomProblem({300, 33, 0, 5}, {9, 3, 16}, at::kBFloat16),
      RandomProblem({400}, {4, 2, 20}, at::kBFloat16, 70),
      RandomProblem({300, 33, 0, 5}, {9, 3, 16}, at::kBFloat16, 70, 1.5)};
  const std::vector<Solution> alone = SolveAll({.name = "dense"}, 1, problems, CudaRunner);
  for (size_t i = 0; i < problems.size(); ++i) {
    const Solution want = Written(problems[i]);
    for (const std::string& name : NamesOnRanks()) {
      const Solution got = SolveAll({.name = name}, 4, {problems[i]}, CudaRunner)[0];
      for (int m = 0; m < 4; ++m) {
        const double of_one = RelativeErrorOf(alone[i].*kMembers[m], want.*kMembers[m]);
        EXPECT_LT(of_one, 8e-3) << kNames[m];
        EXPECT_TRUE(RelativeError(got.*kMembers[m], want.*kMembers[m], (m == 0 ? 2 : 3) * of_one))
            << name << " " << kNames[m];
      }
    }
  }
}

TEST_F(VarlenTest, GpusRunRaggedCalls) {
  EXPECT_EQ(DeviceTileRunner(at::Device(at::kCUDA, 0))->grid(), TileGrid::kSpans);
}

// Records the calls to another VarlenAttention.
class Recorder final : public VarlenAttention {
 public:
  absl::string_view name() const override { return "recorder"; }
  mutable std::vector<VarlenTiles> calls;

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override {
    calls.push_back(tiles);
    return looped_.Forward(tiles);
  }
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout, const at::Tensor& out,
                            const at::Tensor& lse) const override {
    calls.push_back(tiles);
    return looped_.Backward(tiles, dout, out, lse);
  }
  LoopedVarlenAttention looped_{std::make_shared<ReferenceBlockAttention>()};
};

struct RunResult {
  PartialAttention whole;
  QueryKeyValue gradients;
};

RunResult RunPlan(const TileRunner& runner, const std::vector<HeadGroup>& groups,
                  const TilePlan& plan, const QueryKeyValue& rows, const at::Tensor& dout) {
  const RunHeads heads{groups, 0.25};
  const SoftmaxState state = SoftmaxState::Empty(rows.q_THD.size(0), rows.q_THD.size(1),
                                                 rows.q_THD.size(2), rows.q_THD.options());
  runner.Forward(heads, plan, rows, state);
  RunResult result{
      Finish(state),
      {at::zeros_like(rows.q_THD), at::zeros_like(rows.k_SKD), at::zeros_like(rows.v_SKD)}};
  runner.Backward(heads, plan, rows, {dout, result.whole.out_MHD, result.whole.lse_MH},
                  result.gradients);
  return result;
}

QueryKeyValue RandomRows(const TilePlan& plan, int64_t heads, int64_t kv_heads) {
  const auto random = [](int64_t rows, int64_t of) {
    return at::randn({rows, of, 8}, at::kDouble);
  };
  return {random(plan.query_rows, heads), random(plan.key_rows, kv_heads),
          random(plan.key_rows, kv_heads)};
}

TEST_F(VarlenTest, AtMostOneCallForEachKindOfTile) {
  for (const std::string& name : NamesOnRanks()) {
    const Strategy strategy = *ResolveStrategy({.name = name}, 4);
    const auto layout =
        *comm::Layout::Create({5, 1, 120, 0, 33, 700, 7}, strategy.division, CausalTileArea);
    for (int context = 0; context < strategy.division.contexts; ++context) {
      for (const ContextStep& step :
           strategy.transport->Plan(*layout, context, {.grid = TileGrid::kSpans}).steps) {
        std::array<size_t, 3> kinds = {0, 0, 0};
        for (const QueryBlock& block : step.tiles.blocks) {
          for (const TileRows& tile : block.tiles) kinds[static_cast<int>(tile.kind)] = 1;
        }
        const size_t occurring = kinds[0] + kinds[1] + kinds[2];
        const QueryKeyValue rows = RandomRows(step.tiles, 6, 2);
        const auto calls = [&](const std::vector<HeadGroup>& groups) {
          const auto recorder = std::make_shared<Recorder>();
          RunPlan(VarlenTileRunner(recorder), groups, step.tiles, rows, at::randn_like(rows.q_THD));
          return recorder->calls.size();
        };
        EXPECT_EQ(calls({{{0, 3}, 0}, {{3, 6}, 1}}), 2 * occurring)
            << name << ": one forward, one backward";
        EXPECT_EQ(calls({{{0, 4}, 0}, {{4, 6}, 1}}), 4 * occurring)
            << name << ": not equally many query heads";
      }
    }
  }
}

TEST_F(VarlenTest, WholeSpansAreNotCopied) {
  const std::vector<comm::Span> spans = {{0, 0, 40}, {1, 0, 1}, {2, 0, 30}};
  const TilePlan plan =
      PlanTiles({40, 1, 30}, spans, {{spans[0], 0}, {spans[1], 40}, {spans[2], 41}},
                {.grid = TileGrid::kSpans});
  const QueryKeyValue rows = RandomRows(plan, 4, 2);
  const auto recorder = std::make_shared<Recorder>();
  RunPlan(VarlenTileRunner(recorder), {{{0, 2}, 0}, {{2, 4}, 1}}, plan, rows,
          at::randn_like(rows.q_THD));
  ASSERT_EQ(recorder->calls.size(), 2);
  for (const VarlenTiles& call : recorder->calls) {
    EXPECT_EQ(call.query_offsets, (std::vector<int64_t>{0, 40, 41, 71}));
    EXPECT_TRUE(call.q_MHD.is_alias_of(rows.q_THD) && call.k_NKD.is_alias_of(rows.k_SKD) &&
                call.v_NKD.is_alias_of(rows.v_SKD));
  }
}

// Expects the same results from ragged calls as from one call per tile.
void ExpectAsTileByTile(const std::shared_ptr<Recorder>& recorder, const TilePlan& plan) {
  const QueryKeyValue rows = RandomRows(plan, 5, 2);
  const at::Tensor dout = at::randn_like(rows.q_THD);
  const std::vector<HeadGroup> groups = {{{0, 2}, 0}, {{2, 5}, 1}};
  const RunResult got = RunPlan(VarlenTileRunner(recorder), groups, plan, rows, dout);
  const RunResult want = RunPlan(ThreadedTileRunner(std::make_shared<ReferenceBlockAttention>()),
                                 groups, plan, rows, dout);
  EXPECT_TRUE(RelativeError(got.whole.out_MHD, want.whole.out_MHD, 1e-13));
  EXPECT_TRUE(at::allclose(got.whole.lse_MH, want.whole.lse_MH, 1e-13, 1e-13))
      << "some queries see nothing: -inf";
  EXPECT_TRUE(RelativeError(got.gradients.q_THD, want.gradients.q_THD, 1e-13));
  EXPECT_TRUE(RelativeError(got.gradients.k_SKD, want.gradients.k_SKD, 1e-13));
  EXPECT_TRUE(RelativeError(got.gradients.v_SKD, want.gradients.v_SKD, 1e-13));
}

// Overlapping tiles add up: keys in several pieces, out of order, used by several spans of queries,
// and cut at the edge of a window.
TEST_F(VarlenTest, OverlappingTilesAddUp) {
  const std::vector<comm::Span> queries = {{0, 40, 100}, {0, 130, 200}, {1, 0, 9}};
  const std::vector<KeySegment> keys = {{{0, 25, 40}, 0}, {{0, 0, 10}, 15},  {{0, 100, 130}, 25},
                                        {{1, 0, 9}, 55},  {{0, 10, 25}, 64}, {{0, 40, 100}, 79}};
  for (const int64_t window : {0, 3, 30, 75, 110}) {
    const TilePlan plan = PlanTiles({200, 9}, queries, keys, {window, TileGrid::kSpans});
    SCOPED_TRACE(window);
    const auto recorder = std::make_shared<Recorder>();
    ExpectAsTileByTile(recorder, plan);
    if (window == 0) {
      EXPECT_EQ(recorder->calls.size(),
                8);  // full and causal tiles, forward and backward, for 2 and for 3 query heads
      EXPECT_EQ(recorder->calls[0].key_offsets, (std::vector<int64_t>{0, 40, 40 + 130}));
    }
  }
}

// Tiles of a mask add up. They are of the same kinds as other tiles, so a kernel that supports
// these supports every mask.
TEST_F(VarlenTest, TilesOfAMaskAddUp) {
  const std::vector<int64_t> lengths = {200, 0, 90, 9, 70};
  const auto mask = *Mask::Create(lengths, {{70}, {}, {0, 0, 150}, {9, 2, 90}, {20, 0, 150}});
  const auto layout = *comm::Layout::Create(lengths, {3, comm::Ownership::kZigzag});
  for (const int64_t window : {0, 1, 30, 110}) {
    for (int place = 0; place < 3; ++place) {
      for (const ContextStep& step :
           RingTransport().Plan(*layout, place, {window, TileGrid::kSpans, mask.get()}).steps) {
        if (step.tiles.blocks.empty()) continue;
        SCOPED_TRACE(::testing::Message() << "window " << window << ", place " << place);
        ExpectAsTileByTile(std::make_shared<Recorder>(), step.tiles);
      }
    }
  }
}

}  // namespace
}  // namespace moonring::attention
