#ifndef MOONRING_TESTS_GPU_KERNEL_CASES_H_
#define MOONRING_TESTS_GPU_KERNEL_CASES_H_

// One call of each kernel of kernels at a model's sizes, beside its definition in fp64 by
// LibTorch's operators: what `measure kernels` times on a GPU. In the dtypes of a run in bf16: rows
// in bf16, the residual stream, weights and sums in fp32.

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

// A result beside what it is in fp64; `bound`: of ||got - want|| / ||want||.
struct KernelResult {
  at::Tensor want;
  double bound = 0;
};

struct PreparedKernel {
  std::function<std::vector<at::Tensor>()> call;  // may be called again: then it means nothing
  std::vector<KernelResult> results;              // of the first call, in its order
  double bytes = 0;                               // read and written
};

struct KernelCase {
  std::string op;  // "moonring::rms_norm"
  std::function<PreparedKernel(const KernelSizes&, at::Device)> prepare;
  std::string of = "";  // said behind its name, where a kernel has several cases
};

std::vector<KernelCase> KernelCases();

// The greatest error over its bound.
double WorstError(const std::vector<at::Tensor>& got, const std::vector<KernelResult>& results);

// Operators of the namespace moonring that have a kernel for `device` in this program.
std::vector<std::string> KernelsFor(at::Device device);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_GPU_KERNEL_CASES_H_
