#ifndef MOONRING_OBJECTIVES_SUMS_H_
#define MOONRING_OBJECTIVES_SUMS_H_

// What an objective returns for one micro-batch: sums, never means. Only the runtime divides, once.
//
// An objective's level says of which kind all its sums are; sums of the two kinds are never added:
//   token      made from this rank's tokens: sharded, the whole is the sum over dp x sp
//   sequence   made after an all-reduce over sp with identity backward, so equal on each rank of an
//              sp group: replicated, the whole is the sum over dp
// The loss is back-propagated as it is, whatever its kind; gradients are summed over dp x sp. A
// micro-batch with nothing in it gives zeros, and a loss that can be back-propagated.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

// What becomes of a metric's parts, of micro-batches and ranks.
enum class MetricKind {
  kMean,  // a mean still to be taken: sums are added to sums and counts to counts
  kMin,   // the least of those that are of anything: `sum` is one, `count` of how many
  kMax
};

struct Metric {
  double sum = 0.0;
  double count = 0.0;  // of what the mean is over; or the weights, where it is a weighted one
  // Where the numbers are still on a device, so that nobody has waited for them: fp64 [2], sum and
  // count, which are NaN here then.
  at::Tensor unread;
  MetricKind kind = MetricKind::kMean;
};

using Metrics = std::map<std::string, Metric>;

struct Sums {
  at::Tensor loss;  // fp64 scalar, differentiable
  Metrics metrics;
};

// Metrics that are still tensors. Read together at the end, on the CPU; on a device they are left
// there, for whoever reads a step's together.
class MetricSums {
 public:
  void Add(std::string name, const at::Tensor& sum, const at::Tensor& count,
           MetricKind kind = MetricKind::kMean);  // scalars
  // sum of weights * values, over the sum of the weights.
  void AddMean(std::string name, const at::Tensor& values, const at::Tensor& weights);
  // The least or greatest of the values that are `known` (bool); kMin or kMax.
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
