#ifndef MOONRING_OBJECTIVES_SUMS_H_
#define MOONRING_OBJECTIVES_SUMS_H_

// The result of an objective for one micro-batch: sums, never means. Only the runtime divides,
// once.
//
// An objective's level states of which kind all its sums are; sums of the two kinds are never
// added:
//   token      made from this rank's tokens: sharded, the total is the sum over dp x sp
//   sequence   made after an all-reduce over sp with the identity as backward, so equal on each
//              rank of an sp group: replicated, the total is the sum over dp
// In both cases the loss is back-propagated unchanged; gradients are summed over dp x sp. An empty
// micro-batch gives zeros, and a loss that can be back-propagated.

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
  // If the numbers are still on a device, to avoid a synchronization: fp64 [2], sum and count.
  // `sum` and `count` are then NaN.
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
  // Adds the least or greatest of the values for which `known` (bool) is true; kMin or kMax.
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
