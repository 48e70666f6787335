#ifndef MOONRING_OBJECTIVES_SUMS_H_
#define MOONRING_OBJECTIVES_SUMS_H_

// The result of an objective for one micro-batch: sums, never means. Only the training loop divides
// them, once per step.
//
// An objective's sums are of one of two kinds, which the objective states as its level. Sums of
// different kinds are never added:
//   token      computed from this rank's tokens; the total is the sum over all ranks (dp x sp)
//   sequence   computed after an all-reduce over the sp group (whose backward is the identity), so
//              equal on each rank of an sp group; the total is the sum over the sp groups (dp)
// In both cases the loss is back-propagated unchanged, and gradients are summed over all ranks (dp
// x sp). For an empty micro-batch all sums are zero, and the loss can still be back-propagated.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

// How a metric is combined over micro-batches and ranks.
enum class MetricKind {
  kMean,  // a mean that is computed later: sums and counts are added separately
  kMin,   // the least value; `sum` is a value, `count` the number of values it was taken over
  kMax
};

struct Metric {
  double sum = 0.0;
  double count = 0.0;  // number of terms of the mean; or the sum of the weights of a weighted mean
  // Defined if the numbers were left on a device, to avoid a synchronization: fp64 [2], sum and
  // count. The members `sum` and `count` are then NaN.
  at::Tensor unread;
  MetricKind kind = MetricKind::kMean;
};

using Metrics = std::map<std::string, Metric>;

struct Sums {
  at::Tensor loss;  // fp64 scalar, differentiable
  Metrics metrics;
};

// Collects metrics that are still tensors. Fetch reads all of them at once on the CPU; on a device
// they are left there (Metric::unread), so that a step's metrics can be read together.
class MetricSums {
 public:
  void Add(std::string name, const at::Tensor& sum, const at::Tensor& count,
           MetricKind kind = MetricKind::kMean);  // scalars
  // Adds the sum of weights * values, with the sum of the weights as count.
  void AddMean(std::string name, const at::Tensor& values, const at::Tensor& weights);
  // Adds the least (kMin) or greatest (kMax) of the values for which `known` (bool) is true.
  void AddExtreme(std::string name, MetricKind kind, const at::Tensor& values,
                  const at::Tensor& known);
  Metrics Fetch() const;

 private:
  std::vector<std::string> names_;
  std::vector<MetricKind> kinds_;
  std::vector<at::Tensor> numbers_;  // sum, count, sum, count, ...
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_SUMS_H_
