#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_

// Interfaces for a Parameter whose weight or gradient is stored elsewhere, for example sharded over
// ranks (trainer/sharding/zero.h).
//
// Any method may be a collective of all ranks that share the weight. So they must lease weights and
// pass gradients in the same order: a call that one rank makes for a Parameter all ranks make, even
// a rank without rows to use it on.

#include <ATen/core/Tensor.h>

namespace moonring::base {

class WeightHome {
 public:
  virtual ~WeightHome() = default;

  // Starts to fetch the weight for a Lease in that dtype, which must follow before the weight is
  // next written. A second call has no effect.
  virtual void Fetch(at::ScalarType dtype) = 0;

  // The whole weight, detached, in `dtype`. It lives as long as it is referenced.
  virtual at::Tensor Lease(at::ScalarType dtype) = 0;
};

class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // Adds a user's gradient: of the whole shape, contiguous, in the dtype in which it was computed;
  // undefined if the user has none on this rank while other ranks may have one.
  virtual void Take(at::Tensor gradient) = 0;

  // The whole sum of the gradients of all ranks, available after the step's reductions. Zeros if
  // there are none.
  virtual at::Tensor Whole() = 0;
};

// For a weight whose rows are divided over several ranks (Parameter::KeepRows).
class RowsOfAll {
 public:
  virtual ~RowsOfAll() = default;

  // All rows, in order, joined from every rank's `mine`, which is contiguous and has the same dtype
  // on all ranks. A collective of those ranks.
  virtual at::Tensor Join(const at::Tensor& mine) = 0;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
