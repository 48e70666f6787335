#include "kernels/rotary.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

// Computes the rotation from its definition in fp64, as a product of complex numbers.
at::Tensor WantedTurn(const at::Tensor& x_THD, const at::Tensor& cos, const at::Tensor& sin,
                      bool interleaved, bool back) {
  const int64_t pairs = cos.size(2);
  const at::Tensor x = x_THD.to(at::kDouble), turning = x.narrow(2, 0, 2 * pairs);
  const std::vector<int64_t> shape = {x.size(0), x.size(1), interleaved ? pairs : 2,
                                      interleaved ? 2 : pairs};
  const at::Tensor split = turning.reshape(shape);
  const int64_t dim = interleaved ? 3 : 2;
  const at::Tensor turned =
      at::complex(split.select(dim, 0), split.select(dim, 1)) *
      at::complex(cos.to(at::kDouble), back ? -sin.to(at::kDouble) : sin.to(at::kDouble));
  return at::cat({at::stack({at::real(turned), at::imag(turned)}, dim).reshape(turning.sizes()),
                  x.narrow(2, 2 * pairs, x.size(2) - 2 * pairs)},
                 2);
}

struct Problem {
  at::Tensor q, k, cos, sin;
};
Problem RandomProblem(at::ScalarType dtype, int64_t rows, int64_t heads, int64_t kv_heads,
                      int64_t width, int64_t pairs, Lies lies) {
  const at::Tensor all = RandomRows(rows, (heads + kv_heads) * width, dtype, lies);
  const auto part = [&](int64_t begin, int64_t count) {
    return all.narrow(1, begin * width, count * width).unflatten(1, {count, width});
  };
  const at::Tensor angles = at::randn({rows, 1, pairs}, at::kDouble) * 10;
  const at::ScalarType wide = dtype == at::kDouble ? dtype : at::kFloat;
  return {part(0, heads), part(heads, kv_heads), angles.cos().to(wide), angles.sin().to(wide)};
}

TEST(RotaryTest, IsFp64s) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const Lies lies : kLies) {
      for (const auto& [width, pairs] : std::vector<std::pair<int64_t, int64_t>>{
               {64, 32}, {64, 16}, {128, 64}, {6, 3}, {11, 4}, {96, 20}}) {
        for (const bool interleaved : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << dtype << ", lies " << static_cast<int>(lies) << ", " << pairs
                       << " pairs of " << width << ", interleaved " << interleaved);
          const Problem p = RandomProblem(dtype, 19, 5, 2, width, pairs, lies);
          const Poison poison;
          for (const bool back : {false, true}) {
            const Turned made = Rotate(p.q, p.k, p.cos, p.sin, interleaved, back);
            EXPECT_TRUE(RelativeError(made.q_THD, WantedTurn(p.q, p.cos, p.sin, interleaved, back),
                                      BoundOf(dtype)));
            EXPECT_TRUE(RelativeError(made.k_TKD, WantedTurn(p.k, p.cos, p.sin, interleaved, back),
                                      BoundOf(dtype)));
          }
        }
      }
    }
  }
}

TEST(RotaryTest, AnyOrderOfThreadsAndNothing) {
  const Problem p = RandomProblem(at::kFloat, 6, 9, 3, 64, 32, Lies::kWhole);
  const Turned wanted = Rotate(p.q, p.k, p.cos, p.sin, false, false);
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const Turned made = Rotate(p.q, p.k, p.cos, p.sin, false, false);
    EXPECT_TRUE(BitEqual(made.q_THD, wanted.q_THD) && BitEqual(made.k_TKD, wanted.k_TKD));
  }
  const Problem none = RandomProblem(at::kBFloat16, 0, 2, 1, 8, 4, Lies::kWhole);
  EXPECT_EQ(Rotate(none.q, none.k, none.cos, none.sin, true, false).q_THD.size(0), 0);
}

TEST(RotaryTest, RefusesShapesAndDtypes) {
  const Problem p = RandomProblem(at::kFloat, 4, 2, 1, 8, 4, Lies::kWhole);
  const auto turn = [](const Problem& of) { Rotate(of.q, of.k, of.cos, of.sin, false, false); };
  const auto with = [&](const auto& change) {
    Problem changed = p;
    change(changed);
    return changed;
  };
  EXPECT_THROW(turn(with([](Problem& c) { c.k = c.k.narrow(0, 0, 3); })), c10::Error);
  EXPECT_THROW(turn(with([](Problem& c) { c.q = c.q.to(at::kHalf); })), c10::Error);
  EXPECT_THROW(turn(with([](Problem& c) { c.cos = c.cos.to(at::kDouble); })), c10::Error);
  EXPECT_THROW(turn(with([](Problem& c) { c.cos = at::ones({4, 1, 5}); })), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
