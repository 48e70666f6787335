// The bytes and operations that are counted for an operator equal closed forms.

#include "tests/testing/pretend_device/work.h"

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/delta_pack.h"

namespace moonring::pretend {
namespace {

const c10::Device kWorkDevice(c10::kCUDA, 0);

at::Tensor Bf16(at::IntArrayRef sizes) { return at::zeros(sizes, kWorkDevice).to(at::kBFloat16); }

// An operator's only entry since ResetCounts().
struct Entry {
  Calls calls;
  std::string by, shapes;
};

Entry EntryOf(const std::string& name) {
  Entry found;
  int entries = 0;
  for (const auto& [alike, calls] : CountsNow().work) {
    if (std::get<0>(alike) != name) continue;
    found = {calls, std::get<2>(alike), std::get<1>(alike)};
    ++entries;
  }
  EXPECT_EQ(entries, 1) << name;
  return found;
}

void ExpectBytes(const std::string& name, int64_t read, int64_t written) {
  const Entry entry = EntryOf(name);
  EXPECT_EQ(entry.calls.read, read) << name;
  EXPECT_EQ(entry.calls.written, written) << name;
  EXPECT_EQ(entry.calls.flops, 0) << name;
  EXPECT_EQ(entry.by, "") << name;
}

TEST(Work, OfProducts) {
  const at::Tensor a = Bf16({3, 5}), b = Bf16({5, 7}), c = Bf16({3, 7});
  ResetCounts();
  at::mm(a, b);
  at::mm(a, b);
  EXPECT_EQ(EntryOf("mm").calls.calls, 2);
  EXPECT_EQ(EntryOf("mm").calls.flops, 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(EntryOf("mm").calls.read, 2 * 2 * (15 + 35));
  EXPECT_EQ(EntryOf("mm").calls.written, 2 * 2 * 21);
  EXPECT_EQ(EntryOf("mm").by, "product bf16");

  ResetCounts();
  at::addmm(c, a, b);
  EXPECT_EQ(EntryOf("addmm").calls.flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(EntryOf("addmm").calls.read, 2 * (21 + 15 + 35));
  ResetCounts();
  const at::Tensor x = at::zeros({2, 3, 5}, kWorkDevice), y = at::zeros({2, 5, 7}, kWorkDevice);
  at::bmm(x, y);
  EXPECT_EQ(EntryOf("bmm").calls.flops, 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(EntryOf("bmm").by, "product fp32");
  at::globalContext().setAllowTF32CuBLAS(true);
  ResetCounts();
  at::bmm(x, y);
  at::globalContext().setAllowTF32CuBLAS(false);
  EXPECT_EQ(EntryOf("bmm").by, "product tf32");
}

TEST(Work, OfGroupedProducts) {
  const at::Tensor a = Bf16({6, 8}), b = Bf16({3, 8, 16}), dy = Bf16({6, 16}),
                   ends = at::tensor({2, 2, 6}, at::kInt).to(kWorkDevice);
  ResetCounts();
  at::_grouped_mm(a, b, ends);
  EXPECT_EQ(EntryOf("_grouped_mm").calls.flops, 2 * 6 * 8 * 16);
  EXPECT_EQ(EntryOf("_grouped_mm").calls.written, 2 * 6 * 16);
  ResetCounts();
  at::_grouped_mm(a.t(), dy, ends);
  EXPECT_EQ(EntryOf("_grouped_mm").calls.flops, 2 * 6 * 8 * 16);
  EXPECT_EQ(EntryOf("_grouped_mm").calls.written, 2 * 3 * 8 * 16);
  EXPECT_EQ(EntryOf("_grouped_mm").by, "product bf16");
  EXPECT_EQ(CountsNow().Synchronizations(), 0);
  at::_grouped_mm(a.to(at::kFloat), b.to(at::kFloat), ends);
  EXPECT_EQ(CountsNow().Synchronizations(), 1);
  EXPECT_ANY_THROW(at::_grouped_mm(a.t().contiguous(), dy, ends));
}

TEST(Work, OfElementwiseOperators) {
  at::Tensor x = at::zeros({6, 4}, kWorkDevice);
  const at::Tensor row = at::zeros({4}, kWorkDevice), y = at::zeros({6, 4}, kWorkDevice);
  ResetCounts();
  at::mul(x, row.expand({6, 4}));  // a row is read, whatever it is seen as
  ExpectBytes("mul", 4 * (24 + 4), 4 * 24);
  x.add_(y);
  ExpectBytes("add", 4 * (24 + 24), 4 * 24);
  ResetCounts();
  at::exp(x.slice(1, 0, 2));  // of a view its own elements
  ExpectBytes("exp", 4 * 12, 4 * 12);
  x.zero_();
  ExpectBytes("zero_", 0, 4 * 24);
  x.to(at::kBFloat16);
  ExpectBytes("copy_", 4 * 24, 2 * 24);
  at::_foreach_mul_(std::vector<at::Tensor>{x, row}, 2.0);
  ExpectBytes("_foreach_mul_", 4 * 28, 4 * 28);
}

TEST(Work, OfRowsThatAreFew) {
  const at::Tensor table = at::zeros({100, 8}, kWorkDevice),
                   ids = at::zeros({3}, kWorkDevice).to(at::kLong);
  const at::Tensor rows = at::zeros({3, 8}, kWorkDevice);
  ResetCounts();
  at::index_select(table, 0, ids);
  ExpectBytes("index_select", 4 * 24 + 3 * 8, 4 * 24);
  table.index_copy_(0, ids, rows);
  const int64_t given = 4 * 24 + 3 * 8;
  ExpectBytes("index_copy", given + given, given);
  at::index_add(table, 0, ids, rows);  // not in place: all of it is copied
  ExpectBytes("index_add", 4 * 800 + given, 4 * 800);
}

// A chunk selects 64 of a stream's 200 rows, with two heads of three channels: 64 rows are read or
// written.
TEST(Work, OfRowsThatChunksName) {
  const at::Tensor stream = Bf16({200, 2, 3}), chunk = at::zeros({1, 2, 64, 3}, kWorkDevice),
                   tokens = at::arange(64, at::kLong).to(kWorkDevice);
  ResetCounts();
  kernels::DeltaPackRows(stream, tokens);
  ExpectBytes("delta_pack_rows", 64 * 6 * 2 + 64 * 8, 64 * 6 * 4);
  kernels::DeltaUnpack(chunk, tokens, {}, 1.0, 0.0, stream);
  ExpectBytes("delta_unpack", 64 * 6 * 4 + 64 * 8 + 64 * 6 * 2, 64 * 6 * 2);
}

TEST(Work, OfCopiesOverTheLink) {
  const at::Tensor here = at::zeros({10});
  ResetCounts();
  const at::Tensor there = here.to(kWorkDevice);
  EXPECT_EQ(EntryOf("copy to device").by, "link");
  EXPECT_EQ(EntryOf("copy to device").calls.written, 40);
}

// Returns the number of pairs, counted from the definition.
int64_t Pairs(int64_t queries, int64_t keys, int64_t left, int64_t right) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j)
      pairs += j >= i + keys - queries - left && j <= i + keys - queries + right;
  return pairs;
}

TEST(Work, SeenPairsAreTheDefinitions) {
  EXPECT_EQ(SeenPairs(7, 7, std::nullopt, 0), 28);
  EXPECT_EQ(SeenPairs(7, 9, std::nullopt, std::nullopt), 63);
  for (const int64_t keys : {5, 7, 12}) {
    EXPECT_EQ(SeenPairs(7, keys, std::nullopt, 0), Pairs(7, keys, 100, 0));
    EXPECT_EQ(SeenPairs(7, keys, 2, 0), Pairs(7, keys, 2, 0));
    EXPECT_EQ(SeenPairs(7, keys, 3, 1), Pairs(7, keys, 3, 1));
  }
}

// Two sequences of 40 and 56 rows; 4 query heads, 2 key heads, dimension 24.
TEST(Work, OfPackedAttention) {
  const at::Tensor offsets = at::tensor({0, 40, 96}, at::kInt).to(kWorkDevice);
  const at::Tensor q = Bf16({96, 4, 24}), k = Bf16({96, 2, 24}), v = Bf16({96, 2, 24});
  const double causal = 40 * 41 / 2 + 56 * 57 / 2;
  ResetCounts();
  const auto [out, lse, state, unused, mask] = at::_flash_attention_forward(
      q, k, v, offsets, offsets, 56, 56, /*dropout_p=*/0.0, /*is_causal=*/true, false, 1.0, -1, -1);
  EXPECT_EQ(EntryOf("_flash_attention_forward").calls.flops, 4 * causal * 4 * 24);
  EXPECT_EQ(EntryOf("_flash_attention_forward").by, "attention forward bf16");
  EXPECT_GE(EntryOf("_flash_attention_forward").calls.read, 2 * 96 * 24 * (4 + 2 + 2));
  EXPECT_GE(EntryOf("_flash_attention_forward").calls.written, 2 * 96 * 24 * 4 + 4 * 96 * 4);
  at::_flash_attention_backward(out, q, k, v, out, lse, offsets, offsets, 56, 56, 0.0, true,
                                offsets, offsets, 1.0, -1, -1);
  EXPECT_EQ(EntryOf("_flash_attention_backward").calls.flops, 10 * causal * 4 * 24);
  ResetCounts();
  at::_flash_attention_forward(q, k, v, offsets, offsets, 56, 56, 0.0, false, false, 1.0,
                               /*window_size_left=*/7, /*window_size_right=*/-1);
  const auto window = static_cast<double>(Pairs(40, 40, 7, 100) + Pairs(56, 56, 7, 100));
  EXPECT_EQ(EntryOf("_flash_attention_forward").calls.flops, 4 * window * 4 * 24);
}

TEST(Work, OfEfficientAttention) {
  const at::Tensor offsets = at::tensor({0, 40, 96}, at::kInt).to(kWorkDevice);
  const at::Tensor q = at::zeros({1, 96, 4, 24}, kWorkDevice);
  ResetCounts();
  at::_efficient_attention_forward(q, q, q, std::nullopt, offsets, offsets, 56, 56, 0.0,
                                   /*custom_mask_type=*/1, true, 1.0);
  const double causal = 40 * 41 / 2 + 56 * 57 / 2;
  EXPECT_EQ(EntryOf("_efficient_attention_forward").calls.flops, 4 * causal * 4 * 24);
  EXPECT_EQ(EntryOf("_efficient_attention_forward").by, "attention forward fp32");
}

}  // namespace
}  // namespace moonring::pretend
