#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_

// Interfaces for a Parameter whose weight or gradient is stored elsewhere, for example sharded over
// ranks (trainer/sharding/zero.h).
//
// Any method may be a collective of all ranks that share the weight. So these ranks must borrow
// weights (Lease) and pass gradients in the same order. If one rank makes a call for a Parameter,
// all ranks must make it, even a rank that has no rows to multiply by the weight.

#include <ATen/core/Tensor.h>

namespace moonring::base {

class WeightHome {
 public:
  virtual ~WeightHome() = default;

  // Starts to fetch the weight for a Lease in the same dtype, which must follow before the weight
  // is next written. A second Fetch before that Lease has no effect.
  virtual void Fetch(at::ScalarType dtype) = 0;

  // Returns the whole weight in `dtype`, as a detached tensor that the caller borrows: its memory
  // is freed with the last reference to the tensor.
  virtual at::Tensor Lease(at::ScalarType dtype) = 0;
};

class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // Adds the gradient from one use of the weight. `gradient` is contiguous, has the whole weight's
  // shape and the dtype in which it was computed; it is undefined if this use has no gradient on
  // this rank while other ranks may have one.
  virtual void Take(at::Tensor gradient) = 0;

  // Returns the whole sum of the gradients of all ranks, which is available after the step's
  // reductions; zeros if no rank has a gradient.
  virtual at::Tensor Whole() = 0;
};

// For a weight whose rows are divided over several ranks (Parameter::KeepRows).
class RowsOfAll {
 public:
  virtual ~RowsOfAll() = default;

  // Returns all rows in order, joined from `mine` of every rank. `mine` is contiguous and has the
  // same dtype on all ranks. All ranks that have rows must call it.
  virtual at::Tensor Join(const at::Tensor& mine) = 0;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_PARAMETER_HOME_H_
