#include "objectives/sums.h"

#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "comm/memory/to_device.h"

namespace moonring::objectives {

void MetricSums::Add(std::string name, const at::Tensor& sum, const at::Tensor& count) {
  names_.push_back(std::move(name));
  numbers_.push_back(sum.detach().to(at::kDouble));
  numbers_.push_back(comm::ToDevice(count.detach(), sum.device()).to(at::kDouble));
}

void MetricSums::AddMean(std::string name, const at::Tensor& values, const at::Tensor& weights) {
  Add(std::move(name), values.mul(weights).sum(), weights.sum());
}

Metrics MetricSums::Fetch() const {
  Metrics metrics;
  if (names_.empty()) return metrics;
  const at::Tensor numbers = at::stack(numbers_).view({-1, 2});
  constexpr double kUnread = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < names_.size(); ++i) {
    const at::Tensor pair = numbers[static_cast<int64_t>(i)];
    if (pair.is_cpu()) {
      metrics[names_[i]] = {pair.const_data_ptr<double>()[0], pair.const_data_ptr<double>()[1], {}};
    } else {
      metrics[names_[i]] = {kUnread, kUnread, pair};
    }
  }
  return metrics;
}

}  // namespace moonring::objectives
