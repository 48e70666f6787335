#ifndef MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
#define MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_

// Selects fused kernels or LibTorch's operators for computations on a GPU (kernels/choice.h).

#include <cstdlib>

namespace moonring::testing {

// While this object is alive, the choice is "fused" or "composed".
class KernelChoice {
 public:
  explicit KernelChoice(const char* word) { setenv("MOONRING_KERNELS", word, /*overwrite=*/1); }
  ~KernelChoice() { unsetenv("MOONRING_KERNELS"); }
  KernelChoice(const KernelChoice&) = delete;
  KernelChoice& operator=(const KernelChoice&) = delete;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
