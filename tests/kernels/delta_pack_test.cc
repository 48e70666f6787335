#include "kernels/delta_pack.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

// Two documents of 70 and 9 tokens. The chunk of the second document is between the two chunks of
// the first.
constexpr int64_t kTokens = 79, kKeyHeads = 2, kPackHeads = 4;

struct Slots {
  at::Tensor token_of_slot, slot_of_token;
};
Slots SlotsOf() {
  std::vector<int64_t> tokens(192, -1), slots;
  for (int64_t t = 0; t < kTokens; ++t) {
    slots.push_back(t < 64 ? t : t < 70 ? 128 + t - 64 : 64 + t - 70);
    tokens[slots.back()] = t;
  }
  return {at::tensor(tokens, at::kLong), at::tensor(slots, at::kLong)};
}

struct PackCase {
  at::ScalarType dtype;
  int64_t keys, width;
  bool normalize;
  Lies lies;
};

at::Tensor Heads(const PackCase& one, int64_t heads, int64_t width) {
  return RandomRows(kTokens, heads * width, one.dtype, one.lies).unflatten(1, {heads, width});
}

DeltaRows PackRows(const PackCase& one) {
  at::manual_seed(31);
  return {Heads(one, kKeyHeads, one.keys), Heads(one, kKeyHeads, one.keys),
          Heads(one, kPackHeads, one.width), at::rand({kTokens, kPackHeads}).neg(),
          at::rand({kTokens, kPackHeads})};
}

constexpr double kPackScale = 0.3, kPackEps = 1e-3;

// Converts [T, H, X] to chunks, in fp64.
at::Tensor Packed(const at::Tensor& rows) {
  const at::Tensor slots = at::zeros({192, rows.size(1), rows.size(2)}, at::kDouble);
  slots.index_copy_(0, SlotsOf().slot_of_token, rows.to(at::kDouble));
  return slots.unflatten(0, {3, 64}).transpose(1, 2).contiguous();
}
at::Tensor InverseNorm(const at::Tensor& x) {
  return (x.to(at::kDouble).square().sum(-1, true) + kPackEps).rsqrt();
}

std::vector<std::pair<std::string, at::Tensor>> Named(const PackedDelta& p) {
  return {{"q", p.q},
          {"start_q", p.start_q},
          {"k", p.k},
          {"start_k", p.start_k},
          {"end_k", p.end_k},
          {"v", p.v},
          {"g", p.g},
          {"beta", p.beta},
          {"from_start", p.from_start},
          {"to_end", p.to_end}};
}

PackedDelta WantedPack(const PackCase& one, const DeltaRows& in) {
  const auto keys = [&](const at::Tensor& x) {
    at::Tensor wide = x.to(at::kDouble);
    if (one.normalize) wide = wide * InverseNorm(x);
    return Packed(wide.repeat_interleave(kPackHeads / kKeyHeads, 1));
  };
  PackedDelta p;
  p.g = Packed(in.g_TH.unsqueeze(2));
  p.beta = Packed(in.beta_TH.unsqueeze(2));
  p.from_start = p.g.cumsum(2).exp();
  p.to_end = (p.g.sum(2, true) - p.g.cumsum(2)).exp();
  p.q = keys(in.q_THK) * kPackScale;
  p.k = keys(in.k_THK);
  p.v = Packed(in.v_THV);
  p.start_q = p.q * p.from_start;
  p.start_k = p.k * p.from_start;
  p.end_k = p.k * p.to_end;
  return p;
}

std::vector<PackCase> PackCases() {
  std::vector<PackCase> cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Lies lies : kLies) {
      cases.push_back({dtype, 40, 24, true, lies});
      cases.push_back({dtype, 7, 300, false, lies});
      cases.push_back({dtype, 256, 5, true, lies});
    }
  }
  return cases;
}

TEST(DeltaPackTest, IsFp64s) {
  for (const PackCase& one : PackCases()) {
    SCOPED_TRACE(::testing::Message()
                 << one.dtype << ", " << one.keys << ", lies " << static_cast<int>(one.lies));
    const DeltaRows in = PackRows(one);
    const Poison poison;
    const DeltaRowsRule rule{kPackScale, one.normalize, kPackEps};
    const auto made = Named(DeltaPack(in, SlotsOf().token_of_slot, rule)),
               wanted = Named(WantedPack(one, in));
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i].second, wanted[i].second, 6e-7)) << made[i].first;
    EXPECT_TRUE(
        RelativeError(DeltaPackRows(in.v_THV, SlotsOf().token_of_slot), Packed(in.v_THV), 1e-30));
    DeltaRows without = in;
    without.q_THK = at::Tensor();
    const PackedDelta of_keys = DeltaPack(without, SlotsOf().token_of_slot, rule);
    EXPECT_FALSE(of_keys.q.defined());
    EXPECT_TRUE(BitEqual(of_keys.end_k, made[4].second));
  }
}

TEST(DeltaPackTest, GradientsReturnToTheirRanks) {
  for (const PackCase& one : PackCases()) {
    SCOPED_TRACE(::testing::Message()
                 << one.dtype << ", " << one.keys << ", lies " << static_cast<int>(one.lies));
    const at::Tensor x = PackRows(one).k_THK;
    // Gradients of rows in the layout of q and k equal those of the definition with autograd.
    const at::Tensor d = at::randn({3, kPackHeads, 64, one.keys});
    const at::Tensor leaf = x.to(at::kDouble).requires_grad_();
    at::Tensor normed = leaf * kPackScale;
    if (one.normalize) normed = normed * (leaf.square().sum(-1, true) + kPackEps).rsqrt();
    const at::Tensor packed = normed.repeat_interleave(kPackHeads / kKeyHeads, 1);
    const at::Tensor of_rows =
        d.to(at::kDouble).transpose(1, 2).flatten(0, 1).index_select(0, SlotsOf().slot_of_token);
    (packed * of_rows).sum().backward();
    // The output is some of the heads of a larger tensor.
    const at::Tensor all = at::full({kTokens, kKeyHeads + 2, one.keys}, 7.0, x.options()),
                     rows = all.narrow(1, 1, kKeyHeads);
    const at::Tensor normed_x = one.normalize ? x : at::Tensor();
    DeltaUnpack(d, SlotsOf().token_of_slot, normed_x, kPackScale, kPackEps, rows);
    EXPECT_TRUE(RelativeError(rows, leaf.grad(), BoundOf(one.dtype)));
    EXPECT_TRUE(all.select(1, 0).eq(7.0).all().item<bool>());
    EXPECT_TRUE(all.select(1, kKeyHeads + 1).eq(7.0).all().item<bool>());
  }
}

// Packs the first two chunks, then the last one: each call reads and writes only its own tokens.
TEST(DeltaPackTest, OfPartsOfAStream) {
  const PackCase one = PackCases()[0];
  const DeltaRows in = PackRows(one);
  const DeltaRowsRule rule{kPackScale, true, kPackEps};
  const at::Tensor slots = SlotsOf().token_of_slot, d = at::randn({3, kPackHeads, 64, one.keys});
  const auto whole = Named(DeltaPack(in, slots, rule));
  const at::Tensor wanted = at::zeros_like(in.k_THK), rows = at::full_like(in.k_THK, 7.0);
  DeltaUnpack(d, slots, in.k_THK, kPackScale, kPackEps, wanted);
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 1}}) {
    const at::Tensor own = slots.narrow(0, first * 64, count * 64);
    const auto made = Named(DeltaPack(in, own, rule));
    for (size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(BitEqual(made[i].second, whole[i].second.narrow(0, first, count)))
          << made[i].first;
    DeltaUnpack(d.narrow(0, first, count), own, in.k_THK, kPackScale, kPackEps, rows);
    if (first == 0) {
      EXPECT_TRUE(rows.narrow(0, 64, 6).eq(7.0).all().item<bool>()) << "the last chunk's";
    }
  }
  EXPECT_TRUE(BitEqual(rows, wanted));
}

TEST(DeltaPackTest, AnyOrderOfThreads) {
  const PackCase one = PackCases()[0];
  const DeltaRows in = PackRows(one);
  const DeltaRowsRule rule{kPackScale, true, kPackEps};
  const auto wanted = Named(DeltaPack(in, SlotsOf().token_of_slot, rule));
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const auto made = Named(DeltaPack(in, SlotsOf().token_of_slot, rule));
    for (size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(BitEqual(made[i].second, wanted[i].second)) << made[i].first;
  }
}

TEST(DeltaPackTest, RefusesShapesAndDtypes) {
  const DeltaRows in = PackRows(PackCases()[0]);
  const at::Tensor slots = SlotsOf().token_of_slot;
  const auto refuses = [&](const auto& change) {
    DeltaRows rows = in;
    change(rows);
    EXPECT_THROW(DeltaPack(rows, slots, {}), c10::Error);
  };
  refuses([](DeltaRows& r) { r.k_THK = r.k_THK.to(at::kBFloat16); });
  refuses([](DeltaRows& r) { r.q_THK = r.q_THK.narrow(2, 0, 8); });
  refuses([](DeltaRows& r) { r.v_THV = r.v_THV.narrow(1, 0, 3); });
  refuses([](DeltaRows& r) { r.g_TH = r.g_TH.to(at::kDouble); });
  EXPECT_THROW(DeltaPack(in, slots.narrow(0, 0, 100), {}), c10::Error);
  EXPECT_THROW(DeltaPackRows(in.v_THV.to(at::kDouble), slots), c10::Error);
  const at::Tensor d = at::zeros({3, kPackHeads, 64, 40});
  EXPECT_THROW(DeltaUnpack(d, slots, {}, 1, 0, at::zeros({kTokens, 3, 40})), c10::Error);
  EXPECT_THROW(
      DeltaUnpack(d, slots.narrow(0, 0, 128), {}, 1, 0, at::zeros({kTokens, kKeyHeads, 40})),
      c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
