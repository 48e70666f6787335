#ifndef MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
#define MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_

// Whether kernels make a result on a GPU, or LibTorch's operators (kernels/choice.h).

#include <cstdlib>

namespace moonring::testing {

// While it lives: "fused" or "composed".
class KernelChoice {
 public:
  explicit KernelChoice(const char* word) { setenv("MOONRING_KERNELS", word, /*overwrite=*/1); }
  ~KernelChoice() { unsetenv("MOONRING_KERNELS"); }
  KernelChoice(const KernelChoice&) = delete;
  KernelChoice& operator=(const KernelChoice&) = delete;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_KERNEL_CHOICE_H_
