#ifndef MOONRING_TESTS_TESTING_ALL_CLOSE_H_
#define MOONRING_TESTS_TESTING_ALL_CLOSE_H_

// Compares two tensors, with a message that explains a failure:
//
//   EXPECT_TRUE(RelativeError(gradient, reference, 1e-12));

#include <ATen/core/Tensor.h>

#include "gtest/gtest.h"

namespace moonring::testing {

// Returns ||a - b||_F / ||b||_F in fp64. If b is all zero: 0 if a is all zero too, else infinity.
// The result is NaN if any element is NaN.
double RelativeErrorOf(const at::Tensor& a, const at::Tensor& b);

// Succeeds if the shapes agree and RelativeErrorOf(a, b) <= bound; fails on NaN. The dtypes may
// differ.
::testing::AssertionResult RelativeError(const at::Tensor& a, const at::Tensor& b, double bound);

// Succeeds if dtype, shape and bits are equal: NaNs of the same bit pattern are equal, 0 and -0 are
// not.
::testing::AssertionResult BitEqual(const at::Tensor& a, const at::Tensor& b);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_ALL_CLOSE_H_
