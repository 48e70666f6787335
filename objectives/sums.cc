#include "objectives/sums.h"

#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "base/memory/to_device.h"

namespace moonring::objectives {

void MetricSums::Add(std::string name, const at::Tensor& sum, const at::Tensor& count,
                     MetricKind kind) {
  names_.push_back(std::move(name));
  kinds_.push_back(kind);
  numbers_.push_back(sum.detach().to(at::kDouble));
  numbers_.push_back(base::ToDevice(count.detach(), sum.device()).to(at::kDouble));
}

void MetricSums::AddMean(std::string name, const at::Tensor& values, const at::Tensor& weights) {
  Add(std::move(name), values.mul(weights).sum(), weights.sum());
}

void MetricSums::AddExtreme(std::string name, MetricKind kind, const at::Tensor& values,
                            const at::Tensor& known) {
  TORCH_INTERNAL_ASSERT(kind != MetricKind::kMean);
  const bool least = kind == MetricKind::kMin;
  const double nothing = std::numeric_limits<double>::infinity() * (least ? 1 : -1);
  const at::Tensor all = at::cat({values.detach().masked_fill(known.logical_not(), nothing),
                                  at::full({1}, nothing, values.options())});
  Add(std::move(name), least ? all.amin() : all.amax(), known.sum(), kind);
}

Metrics MetricSums::Fetch() const {
  Metrics metrics;
  if (names_.empty()) return metrics;
  const at::Tensor numbers = at::stack(numbers_).view({-1, 2});
  constexpr double kUnread = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < names_.size(); ++i) {
    const at::Tensor pair = numbers[static_cast<int64_t>(i)];
    if (pair.is_cpu()) {
      metrics[names_[i]] = {
          pair.const_data_ptr<double>()[0], pair.const_data_ptr<double>()[1], {}, kinds_[i]};
    } else {
      metrics[names_[i]] = {kUnread, kUnread, pair, kinds_[i]};
    }
  }
  return metrics;
}

}  // namespace moonring::objectives
