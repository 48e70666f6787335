#include "objectives/sums.h"

#include <utility>

#include <ATen/ATen.h>

namespace moonring::objectives {

void MetricSums::Add(std::string name, const at::Tensor& sum, const at::Tensor& count) {
  names_.push_back(std::move(name));
  numbers_.push_back(sum.detach().to(at::kDouble));
  numbers_.push_back(count.detach().to(sum.device(), at::kDouble));
}

void MetricSums::AddMean(std::string name, const at::Tensor& values, const at::Tensor& weights) {
  Add(std::move(name), values.mul(weights).sum(), weights.sum());
}

Metrics MetricSums::Fetch() const {
  Metrics metrics;
  if (names_.empty()) return metrics;
  const at::Tensor numbers = at::stack(numbers_).cpu();
  for (size_t i = 0; i < names_.size(); ++i) {
    metrics[names_[i]] = {numbers.const_data_ptr<double>()[2 * i], numbers.const_data_ptr<double>()[2 * i + 1]};
  }
  return metrics;
}

}  // namespace moonring::objectives
