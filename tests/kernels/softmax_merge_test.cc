#include "kernels/softmax_merge.h"

#include <limits>
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

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Part {
  at::Tensor out_MHD, lse_MH, rows_M;
};

SoftmaxSums Nothing(int64_t rows, int64_t heads, int64_t head_dim, at::ScalarType dtype) {
  return {at::full({rows, heads}, -kInf, dtype), at::zeros({rows, heads}, dtype),
          at::zeros({rows, heads, head_dim}, dtype)};
}

// The expected merge of a row's partial results, in fp64: out = sum_i softmax(lse)_i out_i.
struct Whole {
  at::Tensor out_THD, lse_TH;
};
Whole MergeInFp64(const std::vector<Part>& parts, int64_t rows) {
  const int64_t heads = parts[0].out_MHD.size(1), head_dim = parts[0].out_MHD.size(2);
  std::vector<at::Tensor> outs, lses;
  for (const Part& part : parts) {
    at::Tensor out = at::zeros({rows, heads, head_dim}, at::kDouble),
               lse = at::full({rows, heads}, -kInf, at::kDouble);
    const at::Tensor to = part.rows_M.defined() ? part.rows_M : at::arange(rows);
    outs.push_back(out.index_copy_(0, to, part.out_MHD.to(at::kDouble)));
    lses.push_back(lse.index_copy_(0, to, part.lse_MH.to(at::kDouble)));
  }
  const at::Tensor lse = at::stack(lses), whole = lse.logsumexp(0),
                   share = (lse - whole.unsqueeze(0)).exp().nan_to_num(0.0);
  return {(at::stack(outs) * share.unsqueeze(3)).sum(0), whole};
}

struct MergeCase {
  at::ScalarType out, sums;
  int64_t rows, heads, head_dim;
  bool strided = false;  // part and sums are some of the heads of larger tensors
};

at::Tensor SomeHeads(const at::Tensor& all, int64_t heads, bool strided) {
  return strided ? all.narrow(1, 1, heads) : all;
}

void CheckSums(const MergeCase& c) {
  SCOPED_TRACE(::testing::Message() << c.out << " into " << c.sums << ", " << c.rows << " x "
                                    << c.heads << " x " << c.head_dim << ", strided " << c.strided);
  const int64_t all_heads = c.heads + (c.strided ? 3 : 0);
  const SoftmaxSums all = Nothing(c.rows, all_heads, c.head_dim, c.sums);
  const SoftmaxSums sums = {SomeHeads(all.max_TH, c.heads, c.strided),
                            SomeHeads(all.sum_TH, c.heads, c.strided),
                            SomeHeads(all.weighted_THD, c.heads, c.strided)};
  std::vector<Part> parts;
  for (int i = 0; i < 5; ++i) {
    const bool some = i % 2 == 1;
    const int64_t count = some ? c.rows / 2 : c.rows;
    const at::Tensor out = at::randn({count, all_heads, c.head_dim}, at::kDouble).to(c.out),
                     lse = (at::randn({count, all_heads}, at::kDouble) * 4.0).to(c.sums);
    parts.push_back({SomeHeads(out, c.heads, c.strided), SomeHeads(lse, c.heads, c.strided),
                     some ? at::randperm(c.rows, at::kLong).narrow(0, 0, count) : at::Tensor()});
    SoftmaxMerge(parts.back().out_MHD, parts.back().lse_MH, parts.back().rows_M, sums);
  }
  SoftmaxFinish(sums);
  const Whole wanted = MergeInFp64(parts, c.rows);
  // The sum is rounded five times; lse of about 5 has an additional rounding error.
  const double bound = 4.0 * BoundOf(c.sums);
  EXPECT_TRUE(RelativeError(sums.weighted_THD, wanted.out_THD, bound));
  EXPECT_TRUE(RelativeError(sums.max_TH, wanted.lse_TH, bound));
  if (!c.strided) return;
  EXPECT_TRUE(BitEqual(all.weighted_THD.select(1, 0), at::zeros({c.rows, c.head_dim}, c.sums)));
  EXPECT_TRUE(BitEqual(all.sum_TH.select(1, c.heads + 1), at::zeros({c.rows}, c.sums)));
}

class SoftmaxMergeTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(29); }
};

TEST_F(SoftmaxMergeTest, IsFp64s) {
  for (const auto& [out, sums] :
       {std::pair{at::kFloat, at::kFloat}, std::pair{at::kBFloat16, at::kFloat},
        std::pair{at::kHalf, at::kFloat}, std::pair{at::kDouble, at::kDouble}}) {
    for (const bool strided : {false, true}) {
      CheckSums({out, sums, 37, 3, 64, strided});
      CheckSums({out, sums, 10, 2, 128, strided});
      CheckSums({out, sums, 5, 5, 7, strided});
      CheckSums({out, sums, 4, 1, 1, strided});
      CheckSums({out, sums, 3, 2, 257, strided});
    }
  }
}

TEST_F(SoftmaxMergeTest, TheEmptyPartIsTheIdentity) {
  const at::Tensor out = at::randn({2, 3, 8}), lse = at::randn({2, 3}),
                   no_out = at::zeros({2, 3, 8}), no_lse = at::full({2, 3}, -kInf);
  const SoftmaxSums before = Nothing(2, 3, 8, at::kFloat), after = Nothing(2, 3, 8, at::kFloat),
                    none = Nothing(2, 3, 8, at::kFloat);
  SoftmaxMerge(no_out, no_lse, {}, before), SoftmaxMerge(out, lse, {}, before);
  SoftmaxMerge(out, lse, {}, after), SoftmaxMerge(no_out, no_lse, {}, after);
  SoftmaxMerge(no_out, no_lse, {}, none);
  for (const SoftmaxSums& sums : {before, after, none}) SoftmaxFinish(sums);
  for (const SoftmaxSums& sums : {before, after}) {
    EXPECT_TRUE(BitEqual(sums.weighted_THD, out));
    EXPECT_TRUE(BitEqual(sums.max_TH, lse));
  }
  EXPECT_TRUE(BitEqual(none.weighted_THD, no_out));
  EXPECT_TRUE(BitEqual(none.max_TH, no_lse));
}

TEST_F(SoftmaxMergeTest, ExtremeScoresNeitherOverflowNorVanish) {
  const std::vector<Part> parts = {{at::full({1, 1, 4}, 1.0), at::full({1, 1}, 1e4), {}},
                                   {at::full({1, 1, 4}, 2.0), at::full({1, 1}, 1e4 + 2.0), {}},
                                   {at::full({1, 1, 4}, 3.0), at::full({1, 1}, -3e38), {}}};
  const SoftmaxSums sums = Nothing(1, 1, 4, at::kFloat);
  for (const Part& part : parts) SoftmaxMerge(part.out_MHD, part.lse_MH, {}, sums);
  SoftmaxFinish(sums);
  const Whole wanted = MergeInFp64(parts, 1);
  EXPECT_TRUE(RelativeError(sums.weighted_THD, wanted.out_THD, 1e-6));
  EXPECT_TRUE(RelativeError(sums.max_TH, wanted.lse_TH, 1e-6));
}

TEST_F(SoftmaxMergeTest, OneOrderOfThreadsIsAsGoodAsAnother) {
  const at::Tensor out = at::randn({9, 3, 40}), lse = at::randn({9, 3});
  at::Tensor first;
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const SoftmaxSums sums = Nothing(9, 3, 40, at::kFloat);
    SoftmaxMerge(out, lse, {}, sums);
    SoftmaxMerge(out * 2.0, lse + 1.0, {}, sums);
    SoftmaxFinish(sums);
    const at::Tensor made = at::cat({sums.weighted_THD.flatten(), sums.max_TH.flatten()});
    if (!first.defined()) first = made;
    EXPECT_TRUE(BitEqual(made, first));
  }
}

TEST_F(SoftmaxMergeTest, NoRows) {
  const SoftmaxSums none = Nothing(0, 2, 8, at::kFloat), sums = Nothing(3, 2, 8, at::kFloat);
  SoftmaxMerge(at::empty({0, 2, 8}), at::empty({0, 2}), {}, none);
  SoftmaxFinish(none);
  SoftmaxMerge(at::empty({0, 2, 8}), at::empty({0, 2}), at::empty({0}, at::kLong), sums);
  EXPECT_TRUE(BitEqual(sums.sum_TH, at::zeros({3, 2})));
}

TEST_F(SoftmaxMergeTest, RefusesShapesAndDtypes) {
  const SoftmaxSums sums = Nothing(2, 3, 8, at::kFloat);
  const at::Tensor out = at::zeros({2, 3, 8}), lse = at::zeros({2, 3});
  EXPECT_THROW(SoftmaxMerge(out.narrow(0, 0, 1), lse.narrow(0, 0, 1), {}, sums), c10::Error);
  EXPECT_THROW(SoftmaxMerge(out, lse.narrow(1, 0, 2), {}, sums), c10::Error);
  EXPECT_THROW(SoftmaxMerge(out, lse.to(at::kBFloat16), {}, sums), c10::Error);
  EXPECT_THROW(SoftmaxMerge(out.to(at::kDouble), lse, {}, sums), c10::Error);
  EXPECT_THROW(SoftmaxMerge(out, lse, at::zeros({3}, at::kLong), sums), c10::Error);
  EXPECT_THROW(SoftmaxMerge(at::zeros({2, 8, 3}).transpose(1, 2), lse, {}, sums), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
