#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_

// Where a Parameter's weight lies, and where its gradient goes, when it is not beside it: spread
// over ranks, say (trainer/zero.h).
//
// All that a home does may be a call of all ranks that share the weight. So they must lease, and
// hand gradients over, in one order: what one rank does for a Parameter all do, also with no rows
// to do it for.

#include <ATen/core/Tensor.h>

namespace moonring::base {

class WeightHome {
 public:
  virtual ~WeightHome() = default;

  // Begins to bring the weight here, for a Lease in that dtype which follows before the weight is
  // next written. Twice is once.
  virtual void Fetch(at::ScalarType dtype) = 0;

  // The whole weight, detached, in `dtype`. It lives as long as somebody holds it.
  virtual at::Tensor Lease(at::ScalarType dtype) = 0;
};

class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // Takes a user's gradient, of the whole shape, contiguous, in the dtype that it was made in;
  // undefined where the user has none on this rank, and others may.
  virtual void Take(at::Tensor gradient) = 0;

  // The sum of what was taken, over all ranks, whole; once the step's sums are made. Zeros where
  // there is none.
  virtual at::Tensor Whole() = 0;
};

// Of a weight of which each of several ranks keeps some rows (Parameter::KeepRows).
class RowsOfAll {
 public:
  virtual ~RowsOfAll() = default;

  // All rows, in order, out of everybody's `mine`: the same dtype on all ranks, contiguous. A call
  // of all those ranks.
  virtual at::Tensor Join(const at::Tensor& mine) = 0;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
