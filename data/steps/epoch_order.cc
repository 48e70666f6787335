#include "data/steps/epoch_order.h"

#include <numeric>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>
#include <c10/core/TensorOptions.h>

namespace moonring::data {

std::vector<int64_t> EpochOrder(int64_t n, int64_t seed, int64_t epoch, bool shuffle) {
  std::vector<int64_t> order(n);
  if (shuffle) {
    const at::Generator generator =
        at::detail::createCPUGenerator(static_cast<uint64_t>(seed + epoch));
    const at::Tensor drawn = at::randperm(n, generator, at::TensorOptions().dtype(at::kLong));
    std::copy_n(drawn.const_data_ptr<int64_t>(), n, order.begin());
  } else {
    std::iota(order.begin(), order.end(), int64_t{0});
  }
  return order;
}

}  // namespace moonring::data
