// Attention in strips of scores. Three implementations are compared with the definition in fp64:
// the CPU's, and on the pretend device (a simulated GPU) the kernel and LibTorch's operators
// (MOONRING_KERNELS=composed).

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/kernels/strip_plan.h"
#include "attention/kernels/strip_varlen_attention.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::KernelChoice;
using ::moonring::testing::RelativeErrorOf;

struct StripCase {
  TileKind kind;
  std::vector<int64_t> queries, keys;
  int64_t heads, kv_heads, head_dim, value_dim;
  double softcap = 0.0;
  int64_t window = 0;
};

VarlenTiles TilesOf(const StripCase& c, at::ScalarType type) {
  VarlenTiles tiles{.query_offsets = {0},
                    .key_offsets = {0},
                    .kind = c.kind,
                    .score = {1.0 / std::sqrt(static_cast<double>(c.head_dim)), c.softcap},
                    .window = c.window};
  for (const int64_t rows : c.queries)
    tiles.query_offsets.push_back(tiles.query_offsets.back() + rows);
  for (const int64_t rows : c.keys) tiles.key_offsets.push_back(tiles.key_offsets.back() + rows);
  const auto random = [&](int64_t rows, int64_t heads, int64_t head_dim) {
    return at::randn({rows, heads, head_dim}, at::kDouble).to(type);
  };
  tiles.q_MHD = random(tiles.query_offsets.back(), c.heads, c.head_dim);
  tiles.k_NKD = random(tiles.key_offsets.back(), c.kv_heads, c.head_dim);
  tiles.v_NKD = random(tiles.key_offsets.back(), c.kv_heads, c.value_dim);
  return tiles;
}

// Returns the hidden pairs of a tile with m queries and n keys: bool [m, n].
at::Tensor HiddenOf(const VarlenTiles& tiles, int64_t m, int64_t n) {
  const at::Tensor i = at::arange(m).unsqueeze(1), j = at::arange(n).unsqueeze(0);
  switch (tiles.kind) {
    case TileKind::kFull:
      return at::zeros({m, n}, at::kBool);
    case TileKind::kCausal:
      return j > i;
    case TileKind::kWindowEdge:
      return j < i;
    case TileKind::kBand:
      break;
  }
  const at::Tensor late = j > i + (n - m);
  return tiles.window > 0 ? late.logical_or(j <= i + (n - m - tiles.window)) : late;
}

using StripAnswer = std::array<at::Tensor, 5>;  // out, lse, dq, dk, dv
constexpr std::array<const char*, 5> kAnswers = {"out", "lse", "dq", "dk", "dv"};

// Computes attention from its definition with LibTorch's operators and autograd: in fp64 as the
// reference, or in 16 bits to measure the rounding.
StripAnswer StripsWrittenOut(const VarlenTiles& tiles, const at::Tensor& dout,
                             at::ScalarType type) {
  const at::AutoGradMode enable(true);
  const auto leaf = [&](const at::Tensor& rows) { return rows.to(type).clone().requires_grad_(); };
  const at::Tensor q = leaf(tiles.q_MHD), k = leaf(tiles.k_NKD), v = leaf(tiles.v_NKD);
  std::vector<at::Tensor> outs, lses;
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const int64_t m = tiles.query_offsets[i + 1] - tiles.query_offsets[i],
                  n = tiles.key_offsets[i + 1] - tiles.key_offsets[i];
    const auto of_keys = [&](const at::Tensor& all) {
      return all.narrow(0, tiles.key_offsets[i], n)
          .repeat_interleave(q.size(1) / k.size(1), 1)
          .transpose(0, 1);
    };
    at::Tensor scores = at::matmul(q.narrow(0, tiles.query_offsets[i], m).transpose(0, 1),
                                   of_keys(k).transpose(1, 2)) *
                        tiles.score.scale;
    if (tiles.score.softcap > 0)
      scores = (scores / tiles.score.softcap).tanh() * tiles.score.softcap;
    scores = scores.masked_fill(HiddenOf(tiles, m, n), -INFINITY);
    outs.push_back(at::matmul(scores.softmax(2), of_keys(v)).transpose(0, 1));
    lses.push_back(at::logsumexp(scores, {2}).t());
  }
  const auto d = torch::autograd::grad({at::cat(outs)}, {q, k, v}, {dout.to(type)});
  return {at::cat(outs).detach(), at::cat(lses).detach(), d[0], d[1], d[2]};
}

StripAnswer ByStrips(const VarlenTiles& tiles, const at::Tensor& dout, int64_t score_bytes,
                     const c10::Device& device) {
  VarlenTiles moved = tiles;
  moved.q_MHD = tiles.q_MHD.to(device);
  moved.k_NKD = tiles.k_NKD.to(device);
  moved.v_NKD = tiles.v_NKD.to(device);
  const StripVarlenAttention attention(score_bytes);
  const PartialAttention part = attention.Forward(moved);
  const TileGradients d = attention.Backward(moved, dout.to(device), part.out_MHD, part.lse_MH);
  return {part.out_MHD.cpu(), part.lse_MH.cpu(), d.dq_MHD.cpu(), d.dk_NKD.cpu(), d.dv_NKD.cpu()};
}

// Bounds: twice (out) and three times (gradients) the error of the definition in 16-bit operators.
// lse is computed in fp32 from 16-bit inputs.
void CheckAnswer(const StripAnswer& made, const StripAnswer& wanted,
                 const StripAnswer& in_16_bits) {
  for (size_t i = 0; i < made.size(); ++i) {
    SCOPED_TRACE(kAnswers[i]);
    EXPECT_EQ(made[i].scalar_type(), at::kFloat);
    EXPECT_TRUE(made[i].isfinite().all().item<bool>());
    if (i == 1) {
      EXPECT_LE((made[i] - wanted[i]).abs().max().item<double>(), 1e-5);
    } else if (wanted[i].norm().item<double>() > 1e-12) {  // otherwise rounding errors
      EXPECT_LE(RelativeErrorOf(made[i], wanted[i]),
                (i == 0 ? 2.0 : 3.0) * RelativeErrorOf(in_16_bits[i], wanted[i]));
    }
  }
}

void CheckCase(const StripCase& c, at::ScalarType type,
               const std::vector<int64_t>& all_score_bytes) {
  const VarlenTiles tiles = TilesOf(c, type);
  const at::Tensor dout = at::randn(OutShape(tiles.q_MHD, tiles.v_NKD), tiles.q_MHD.options());
  const StripAnswer wanted = StripsWrittenOut(tiles, dout, at::kDouble),
                    in_16_bits = StripsWrittenOut(tiles, dout, type);
  for (const int64_t score_bytes : all_score_bytes) {
    SCOPED_TRACE(::testing::Message()
                 << type << ", kind " << static_cast<int>(c.kind) << ", " << c.queries.size()
                 << " tiles, " << c.heads << " heads of " << c.head_dim << ", softcap " << c.softcap
                 << ", window " << c.window << ", " << score_bytes << " bytes");
    {
      SCOPED_TRACE("cpu");
      CheckAnswer(ByStrips(tiles, dout, score_bytes, at::kCPU), wanted, in_16_bits);
    }
    for (const char* word : {"fused", "composed"}) {
      SCOPED_TRACE(word);
      const KernelChoice choice(word);
      pretend::ResetCounts();
      const StripAnswer made = ByStrips(tiles, dout, score_bytes, c10::Device(c10::kCUDA, 0));
      auto counted = pretend::CountsNow().kernels;
      EXPECT_EQ(counted["score_rows"] > 0, word == std::string("fused"));
      EXPECT_EQ(counted["score_rows_backward"] > 0, word == std::string("fused"));
      CheckAnswer(made, wanted, in_16_bits);
    }
  }
}

class StripVarlenAttentionTest : public ::testing::Test {
 protected:
  // Random numbers come from the CPU's generator: the pretend device has none.
  void SetUp() override {
    at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(7);
  }
};

constexpr int64_t kWhole = int64_t{1} << 30;  // bytes of scores: every tile is one strip

TEST_F(StripVarlenAttentionTest, EveryKindOfTile) {
  const std::vector<int64_t> some = {33, 1, 70, 7}, more = {40, 9, 150, 7};
  for (const auto& [type, softcap] : {std::pair{at::kBFloat16, 1.5}, std::pair{at::kHalf, 0.0}}) {
    for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
      const std::vector<int64_t> keys = kind == TileKind::kFull ? more : some;
      CheckCase({kind, some, keys, 4, 2, 16, 10, softcap}, type, {kWhole, 32 << 10});
    }
    for (const int64_t window : {0, 1, 30})
      CheckCase({TileKind::kBand, some, more, 4, 2, 16, 16, softcap, window}, type,
                {kWhole, 32 << 10});
  }
}

TEST_F(StripVarlenAttentionTest, HeadDims) {
  for (const int64_t head_dim : {64, 128, 256, 512}) {
    CheckCase({TileKind::kBand, {45, 90}, {45, 90}, 2, 1, head_dim, head_dim, 3.0, 20},
              at::kBFloat16, {kWhole});
    CheckCase({TileKind::kCausal, {77}, {77}, 2, 2, head_dim, head_dim}, at::kHalf, {kWhole});
  }
}

// Keys are processed in several pieces, whose results are merged.
TEST_F(StripVarlenAttentionTest, MoreKeysThanARowTakesAtOnce) {
  CheckCase({TileKind::kFull, {70}, {8900}, 1, 1, 8, 8, 1.5}, at::kBFloat16, {kWhole, 1 << 20});
}

TEST_F(StripVarlenAttentionTest, RefusesWhatIsNotIn16Bits) {
  const VarlenTiles tiles = TilesOf({TileKind::kCausal, {5}, {5}, 2, 1, 8, 8}, at::kFloat);
  EXPECT_THROW(StripVarlenAttention().Forward(tiles), c10::Error);
}

// ---- plans

// Counts how often each query is paired with each key, [M, N].
class Meetings {
 public:
  explicit Meetings(const VarlenTiles& tiles)
      : keys_(tiles.key_offsets.back()), times_(tiles.query_offsets.back() * keys_, 0) {}
  void Add(int64_t query, int64_t key) { ++times_[query * keys_ + key]; }
  bool operator==(const Meetings&) const = default;

 private:
  int64_t keys_;
  std::vector<int> times_;
};

Meetings WantedMeetings(const VarlenTiles& tiles) {
  Meetings wanted(tiles);
  for (size_t t = 0; t + 1 < tiles.query_offsets.size(); ++t) {
    const int64_t q = tiles.query_offsets[t], k = tiles.key_offsets[t],
                  m = tiles.query_offsets[t + 1] - q, n = tiles.key_offsets[t + 1] - k;
    const at::Tensor seen = HiddenOf(tiles, m, n).logical_not().nonzero();
    const auto at = seen.accessor<int64_t, 2>();
    for (int64_t i = 0; i < seen.size(0); ++i) wanted.Add(q + at[i][0], k + at[i][1]);
  }
  return wanted;
}

void AddSeen(const RowRange& queries, const RowRange& keys, const SeenPairs& seen,
             Meetings& meetings) {
  EXPECT_EQ(queries.rows(), seen.queries);
  EXPECT_EQ(keys.rows(), seen.keys);
  for (int64_t i = 0; i < seen.queries; ++i) {
    const int64_t first = std::max<int64_t>(0, i + seen.low),
                  last = std::min(seen.keys - 1, i + seen.high);
    for (int64_t j = first; j <= last; ++j) meetings.Add(queries.begin + i, keys.begin + j);
  }
}

// A plan contains each pair once. A strip has at most the allowed number of pairs, or 64 rows. All
// keys of a query are in one strip, so its output is complete there.
TEST_F(StripVarlenAttentionTest, PlansMeetEachPairOnce) {
  const std::vector<int64_t> some = {300, 1, 150, 30, 29}, more = {420, 9, 150, 30, 71};
  for (const auto& [kind, window] :
       std::vector<std::pair<TileKind, int64_t>>{{TileKind::kFull, 0},
                                                 {TileKind::kCausal, 0},
                                                 {TileKind::kWindowEdge, 0},
                                                 {TileKind::kBand, 0},
                                                 {TileKind::kBand, 1},
                                                 {TileKind::kBand, 100},
                                                 {TileKind::kBand, 1000}}) {
    const bool is_square = kind == TileKind::kCausal || kind == TileKind::kWindowEdge;
    const VarlenTiles tiles =
        TilesOf({kind, some, is_square ? some : more, 1, 1, 1, 1, 0.0, window}, at::kHalf);
    for (const int64_t pairs : {1, 5'000, 30'000, 10'000'000}) {
      Meetings met(tiles);
      std::multiset<int64_t> queries;
      for (const Strip& strip : PlanStrips(tiles, pairs)) {
        EXPECT_TRUE(strip.queries.size() == 1 || strip.pieces.size() == 1);
        int64_t rows = 0;
        for (const RowRange& range : strip.queries) {
          rows = std::max(rows, range.rows());
          for (int64_t i = range.begin; i < range.end; ++i) queries.insert(i);
        }
        for (const StripKeys& piece : strip.pieces) {
          int64_t keys = 0;
          for (size_t i = 0; i < piece.keys.size(); ++i) {
            keys = std::max(keys, piece.keys[i].rows());
            AddSeen(strip.queries[i], piece.keys[i], piece.seen[i], met);
          }
          EXPECT_TRUE(rows <= 64 || static_cast<int64_t>(piece.keys.size()) * rows * keys <= pairs);
        }
      }
      EXPECT_TRUE(met == WantedMeetings(tiles)) << static_cast<int>(kind) << ", " << pairs;
      EXPECT_EQ(queries.size(), std::set<int64_t>(queries.begin(), queries.end()).size());
      EXPECT_EQ(static_cast<int64_t>(queries.size()), tiles.query_offsets.back());
    }
  }
}

}  // namespace
}  // namespace moonring::attention
