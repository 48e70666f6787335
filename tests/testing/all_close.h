#ifndef MOONRING_TESTS_TESTING_ALL_CLOSE_H_
#define MOONRING_TESTS_TESTING_ALL_CLOSE_H_

// How far two tensors are apart, with the reason where it is too far:
//
//   EXPECT_TRUE(RelativeError(gradient, reference, 1e-12));

#include <ATen/core/Tensor.h>

#include "gtest/gtest.h"

namespace moonring::testing {

// ||a - b||_F / ||b||_F in fp64. Where b is all zero: 0 if a is too, else infinity. NaN anywhere
// gives NaN.
double RelativeErrorOf(const at::Tensor& a, const at::Tensor& b);

// Success where the shapes agree and RelativeErrorOf(a, b) <= bound; a NaN fails. The dtypes may
// differ.
::testing::AssertionResult RelativeError(const at::Tensor& a, const at::Tensor& b, double bound);

// Same dtype, shape and bits: NaNs of one pattern are equal, 0 and -0 are not.
::testing::AssertionResult BitEqual(const at::Tensor& a, const at::Tensor& b);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_ALL_CLOSE_H_
