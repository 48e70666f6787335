// Guarantees for backward functions, on any device. (The gradients of operators are tested with the
// operators.)

#include "base/autograd/custom_function.h"

#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <gtest/gtest.h>

namespace moonring::base {
namespace {

// The setting that the engine reads before it runs a GPU's node on another thread.
bool MayUseOtherThreads() {
  return c10::AutogradState::get_tls_state().get_multithreading_enabled();
}

// y = 2 x; `seen` is called in its backward.
at::Tensor Doubled(const at::Tensor& x, std::function<void()> seen) {
  return ApplyToOne({.name = "doubled",
                     .forward = [&](Tensors*) -> Tensors { return {x * 2}; },
                     .backward = [seen](BackwardCall& call) -> Tensors {
                       seen();
                       return {call.gradients[0] * 2};
                     }},
                    {x});
}

TEST(CustomFunctionTest, BackwardStaysOnTheCallingThread) {
  const std::thread::id here = std::this_thread::get_id();
  int calls = 0;
  const auto check = [&] {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), here);
    EXPECT_FALSE(MayUseOtherThreads());
  };
  // A backward that runs inside a backward, as for a recomputed block, and one after it.
  const auto nested = [&] {
    check();
    const at::AutoGradMode enable(true);
    const at::Tensor inner = at::ones({1}).requires_grad_();
    EXPECT_EQ(Differentiate({Doubled(inner, check)}, {inner}, {at::ones({1})})[0].item<float>(),
              2.0F);
    check();
  };
  ASSERT_TRUE(MayUseOtherThreads());
  const at::Tensor x = at::ones({1}).requires_grad_();
  EXPECT_EQ(
      Differentiate({Doubled(Doubled(x, check), nested)}, {x}, {at::ones({1})})[0].item<float>(),
      4.0F);
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(MayUseOtherThreads());  // restored
  Backpropagate({Doubled(x, check)}, {at::ones({1})});
  EXPECT_EQ(x.grad().item<float>(), 2.0F);
  EXPECT_EQ(calls, 5);
  EXPECT_TRUE(MayUseOtherThreads());
}

TEST(CustomFunctionTest, ThreadsAreLeftAsTheyWereAfterAFailure) {
  const at::Tensor x = at::ones({1}).requires_grad_();
  const at::Tensor y = Doubled(x, [] { TORCH_CHECK(false, "not today"); });
  EXPECT_THROW(Backpropagate({y}, {at::ones({1})}), c10::Error);
  EXPECT_TRUE(MayUseOtherThreads());
}

}  // namespace
}  // namespace moonring::base
