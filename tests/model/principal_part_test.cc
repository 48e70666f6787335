#include "model/principal_part.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/testing/all_close.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr int64_t kRank = 3;
constexpr double kScale = 1.7;

// A matrix U S V^T with orthonormal U and V, whose singular values decrease by the factor `ratio`.
struct Known {
  at::Tensor weight, u, s, v;

  Known(int64_t rows, int64_t columns, double ratio) {
    at::manual_seed(2);
    const int64_t side = std::min(rows, columns);
    u = std::get<0>(at::linalg_qr(at::randn({rows, side}, at::kDouble)));
    v = std::get<0>(at::linalg_qr(at::randn({columns, side}, at::kDouble)));
    s = at::pow(at::tensor(ratio, at::kDouble), at::arange(side, at::kDouble));
    weight = (u * s).matmul(v.t());
  }
  at::Tensor Largest() const {
    return (u * s).narrow(1, 0, kRank).matmul(v.narrow(1, 0, kRank).t());
  }
};

at::Tensor Product(const PrincipalPart& part) { return kScale * part.b_OR.matmul(part.a_RI); }

TEST(PrincipalPartTest, ExactIsTheLargestSingularValues) {
  for (const auto& [rows, columns] : {std::pair(20, 12), std::pair(12, 20), std::pair(9, 9)}) {
    const Known known(rows, columns, 0.8);
    const PrincipalPart part = PrincipalPartOf(known.weight, kRank, kScale, -1, 1, "map");
    EXPECT_TRUE(RelativeError(Product(part), known.Largest(), 1e-13));
    // A and B have the same norm along each singular direction.
    EXPECT_TRUE(
        RelativeError(part.a_RI.matmul(part.a_RI.t()), part.b_OR.t().matmul(part.b_OR), 1e-13));
    EXPECT_TRUE(
        RelativeError(part.a_RI.pow(2).sum(1), known.s.narrow(0, 0, kRank) / kScale, 1e-13));
    const PrincipalPart narrow =
        PrincipalPartOf(known.weight.to(at::kFloat), kRank, kScale, -1, 1, "map");
    EXPECT_EQ(narrow.a_RI.scalar_type(), at::kFloat);
    EXPECT_TRUE(RelativeError(Product(narrow), known.Largest(), 1e-5));
    const PrincipalPart bf16 =
        PrincipalPartOf(known.weight.to(at::kBFloat16), kRank, kScale, -1, 1, "map");
    EXPECT_EQ(bf16.a_RI.scalar_type(), at::kFloat);
    EXPECT_TRUE(RelativeError(Product(bf16), known.Largest(), 1e-2));
  }
}

// The error of the randomized algorithm decreases with the number n of iterations as (sigma_(R+1) /
// sigma_R)^(2n), here 0.5^(2n), starting from the error of the random initial value.
TEST(PrincipalPartTest, RandomisedComesAsCloseAsItsIterationsSay) {
  for (const auto& [rows, columns] : {std::pair(20, 12), std::pair(12, 20)}) {
    const Known known(rows, columns, 0.5);
    double before = 1e9;
    for (const int64_t iterations : {0, 1, 2, 4, 8, 16}) {
      const PrincipalPart part = PrincipalPartOf(known.weight, kRank, kScale, iterations, 1, "map");
      const double off =
          ((Product(part) - known.Largest()).norm() / known.Largest().norm()).item<double>();
      EXPECT_LT(off, std::max(1e-14, 20 * std::pow(0.5, 2 * iterations))) << iterations;
      EXPECT_LT(off, std::max(before, 1e-14));
      before = off;
    }
  }
}

TEST(PrincipalPartTest, ItsNumbersAreOfSeedAndModule) {
  const Known known(20, 12, 0.9);
  const auto of = [&](uint64_t seed, absl::string_view module) {
    return PrincipalPartOf(known.weight, kRank, kScale, 0, seed, module).a_RI;
  };
  EXPECT_TRUE(BitEqual(of(1, "map"), of(1, "map")));
  EXPECT_FALSE(BitEqual(of(1, "map"), of(2, "map")));
  EXPECT_FALSE(BitEqual(of(1, "map"), of(1, "other")));
}

TEST(PrincipalPartTest, RefusesMoreThanThereAre) {
  EXPECT_THROW(PrincipalPartOf(at::randn({4, 9}), 5, 1.0, 16, 1, "map"), c10::Error);
  EXPECT_NO_THROW(PrincipalPartOf(at::randn({4, 9}), 4, 1.0, 16, 1, "map"));
}

}  // namespace
}  // namespace moonring::model
