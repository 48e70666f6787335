#ifndef MOONRING_TESTS_TESTING_STATUS_MATCHERS_H_
#define MOONRING_TESTS_TESTING_STATUS_MATCHERS_H_

// Matchers of absl::Status and absl::StatusOr:
//
//   EXPECT_THAT(Load(path), IsOk());
//   EXPECT_THAT(Load(path), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
//   ASSERT_OK_AND_ASSIGN(std::shared_ptr<Checkpoint> checkpoint, Load(path));

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::testing {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << "which is " << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message,
           std::string(negation ? "does not have" : "has") + " code " +
               absl::StatusCodeToString(code) + " and a message that " +
               ::testing::DescribeMatcher<std::string>(message, negation)) {
  *result_listener << "which is " << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(GetStatus(arg).message()),
                                       result_listener);
}

}  // namespace moonring::testing

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::moonring::testing::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::moonring::testing::IsOk())

#define MOONRING_TESTING_CONCAT_INNER(a, b) a##b
#define MOONRING_TESTING_CONCAT(a, b) MOONRING_TESTING_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(target, ...)                                                    \
  MOONRING_ASSERT_OK_AND_ASSIGN(MOONRING_TESTING_CONCAT(moonring_result_, __LINE__), target, \
                                (__VA_ARGS__))
#define MOONRING_ASSERT_OK_AND_ASSIGN(result, target, expression)     \
  auto result = expression;                                           \
  ASSERT_TRUE(result.ok()) << #expression << ": " << result.status(); \
  target = *std::move(result)

#endif  // MOONRING_TESTS_TESTING_STATUS_MATCHERS_H_
