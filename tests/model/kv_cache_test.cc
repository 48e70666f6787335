// Attention with a key-value cache, over several calls, compared with attention of the whole
// document computed from its definition.

#include "model/kv_cache.h"

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {
namespace {

using attention::ScoreRule;
using moonring::testing::MaskedAttention;
using moonring::testing::RelativeError;
using ::testing::HasSubstr;

// Number of tokens per call: a prompt, single tokens, and several tokens at once after cached ones,
// so that the cache grows.
const std::vector<int64_t> kParts = {5, 1, 1, 64, 1, 200, 1};
constexpr int64_t kTokens = 273;

TEST(KvCacheTest, PartsGiveWhatTheWholeGives) {
  at::NoGradGuard no_grad;
  at::manual_seed(4);
  // Bounds. fp64 and fp32: sums in another order. bf16: the operator also rounds probabilities, to
  // 2^-9.
  for (const auto& [dtype, bound] : {std::pair{at::kDouble, 1e-14}, std::pair{at::kFloat, 2e-6},
                                     std::pair{at::kBFloat16, 1e-2}}) {
    const auto random = [&, type = dtype](int64_t heads, int64_t head_dim = 8) {
      return at::randn({kTokens, heads, head_dim}, at::kDouble).to(type);
    };
    const at::Tensor q = random(6), k = random(2), v = random(2);
    // A third layer, whose values have fewer features.
    const at::Tensor narrow = random(2, 6);
    for (const int64_t window : {0, 3, 64, 500}) {
      for (const double softcap : {0.0, 1.5, 50.0}) {
        SCOPED_TRACE(::testing::Message()
                     << dtype << ", window " << window << ", softcap " << softcap);
        const ScoreRule rule{0.35, window, softcap};
        KvCache cache(/*layers=*/3);
        std::vector<at::Tensor> first, second, third;
        for (const int64_t rows : kParts) {
          const auto part = [&](const at::Tensor& stream) {
            return stream.narrow(0, cache.tokens(), rows);
          };
          first.push_back(cache.Forward(part(q), part(k), part(v), rule, nullptr));
          second.push_back(cache.Forward(part(q), part(v), part(k), rule,
                                         nullptr));  // another layer, with other keys
          third.push_back(cache.Forward(part(q), part(k), part(narrow), rule, nullptr));
        }
        MaskedAttention whole({kTokens});
        EXPECT_TRUE(RelativeError(at::cat(first), whole.Forward(q, k, v, rule, nullptr), bound));
        EXPECT_TRUE(RelativeError(at::cat(second), whole.Forward(q, v, k, rule, nullptr), bound));
        const at::Tensor filled = at::constant_pad_nd(narrow, {0, 2});
        EXPECT_TRUE(RelativeError(
            at::cat(third), whole.Forward(q, k, filled, rule, nullptr).narrow(2, 0, 6), bound));
        EXPECT_EQ(first[0].scalar_type(), dtype);
      }
    }
  }
}

TEST(KvCacheTest, RefusesInvalidSoftcaps) {
  at::NoGradGuard no_grad;
  KvCache cache(/*layers=*/1);
  const at::Tensor rows = at::randn({1, 2, 8});
  for (const double softcap : {-30.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    try {
      cache.Forward(rows, rows, rows, {1.0, 0, softcap}, nullptr);
      ADD_FAILURE() << "no error for " << softcap;
    } catch (const c10::Error& error) {
      EXPECT_THAT(std::string(error.what_without_backtrace()), HasSubstr("a softcap of "));
    }
  }
  EXPECT_EQ(cache.tokens(), 0);
}

}  // namespace
}  // namespace moonring::model
