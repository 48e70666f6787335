#ifndef MOONRING_TESTS_TESTING_TENSOR_SKETCH_H_
#define MOONRING_TESTS_TESTING_TENSOR_SKETCH_H_

// Compares a tensor with its sketch (norm and random projections) in a golden file:
//
//   EXPECT_TRUE(SketchedError("lm_head.weight", gradient, golden["gradients"][name], 1e-10));

#include <string>

#include <ATen/ATen.h>

#include "tests/testing/gradient_sketch.h"

namespace moonring::testing {

inline ::testing::AssertionResult SketchedError(const std::string& name, const at::Tensor& gradient,
                                                const nlohmann::json& golden, double bound) {
  if (!gradient.defined())
    return ::testing::AssertionFailure() << name << " is an undefined tensor";
  const at::Tensor flat = gradient.detach().cpu().to(at::kDouble).contiguous();
  const double* first = flat.const_data_ptr<double>();
  return SketchedError({name, flat.sizes().vec(), {first, first + flat.numel()}}, golden, bound);
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_TENSOR_SKETCH_H_
