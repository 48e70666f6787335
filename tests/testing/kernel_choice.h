#ifndef MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
#define MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_

// Sets, for a GPU, whether fused kernels or LibTorch's operators are used (kernels/choice.h).

#include <cstdlib>

namespace moonring::testing {

// While this object exists, the choice is "fused" or "composed".
class KernelChoice {
 public:
  explicit KernelChoice(const char* word) { setenv("MOONRING_KERNELS", word, /*overwrite=*/1); }
  ~KernelChoice() { unsetenv("MOONRING_KERNELS"); }
  KernelChoice(const KernelChoice&) = delete;
  KernelChoice& operator=(const KernelChoice&) = delete;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
