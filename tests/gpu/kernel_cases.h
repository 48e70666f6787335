#ifndef MOONRING_TESTS_GPU_KERNEL_CASES_H_
#define MOONRING_TESTS_GPU_KERNEL_CASES_H_

// One call of each operator of kernels/ at the sizes of a model, and its definition in fp64 by
// LibTorch's operators. `measure kernels` times these calls on a GPU. The dtypes are those of a
// bf16 run: rows in bf16; the residual stream, weights and sums in fp32.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::testing {

struct KernelSizes {
  int64_t rows = 0, width = 0;      // of a hidden state
  int64_t heads = 0, kv_heads = 0;  // of width / heads features
  int64_t vocabulary = 0, parameters = 0;
};

// The expected result of a kernel in fp64, and the upper bound of ||got - want|| / ||want||.
struct KernelResult {
  at::Tensor want;
  double bound = 0;
};

struct PreparedKernel {
  std::function<std::vector<at::Tensor>()> call;  // only its first result is meaningful
  std::vector<KernelResult> results;              // of the first call, in its order
  double bytes = 0;                               // read and written
};

struct KernelCase {
  std::string op;  // for example "moonring::rms_norm"
  std::function<PreparedKernel(const KernelSizes&, at::Device)> prepare;
  std::string of = "";  // appended to the name if a kernel has several cases
};

std::vector<KernelCase> KernelCases();

// Returns the greatest ratio of an error to its bound.
double WorstError(const std::vector<at::Tensor>& got, const std::vector<KernelResult>& results);

// Returns the operators of the namespace `moonring` for which this program has a kernel on
// `device`.
std::vector<std::string> KernelsFor(at::Device device);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_GPU_KERNEL_CASES_H_
