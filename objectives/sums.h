#ifndef MOONRING_OBJECTIVES_SUMS_H_
#define MOONRING_OBJECTIVES_SUMS_H_

// What an objective returns for one micro-batch: sums, never means. Only the runtime divides, once.
//
// A sum is of one of two kinds, and is never added to one of the other kind:
//   sharded     made from this rank's tokens: the whole is the sum over dp x sp
//   replicated  made after an all-reduce over sp with identity backward, so equal on each rank of an sp group:
//               the whole is the sum over dp
// The loss is back-propagated as it is, whatever its kind; gradients are summed over dp x sp.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::objectives {

enum class Kind { kSharded, kReplicated };

struct Sum {
  Kind kind = Kind::kSharded;
  at::Tensor value;  // fp64 scalar; differentiable where it is a loss
};

// Named (sum, count) pairs of one step, added up over its micro-batches. The names are declared first, so that a rank
// whose share of the step is empty still takes part in the reduction.
class Metrics {
 public:
  struct Declared {
    std::string name;
    Kind kind;
  };
  struct Total {
    double sum = 0.0;
    int64_t count = 0;
    double Mean() const { return count == 0 ? 0.0 : sum / static_cast<double>(count); }
  };

  explicit Metrics(const std::vector<Declared>& declared);

  // Throws where the name was not declared, or was declared of the other kind.
  void Add(const std::string& name, Kind kind, double sum, int64_t count);
  void Add(const Metrics& other);

  // The whole step's totals: sharded ones summed over `world` (dp x sp), replicated ones over `dp`. Two all-reduces each (fp64 sums, int64
  // counts), of a few bytes, where there is anything of that kind. Every rank must call it.
  absl::StatusOr<std::map<std::string, Total>> Reduce(comm::Communicator& world, comm::Communicator& dp) const;

  const Total& at(const std::string& name) const;

 private:
  struct Entry {
    Kind kind;
    Total total;
  };
  std::map<std::string, Entry> entries_;  // ordered: every rank walks it alike
};

struct Sums {
  Sum loss;
  Metrics metrics;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_SUMS_H_
