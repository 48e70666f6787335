#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_H_

// A named parameter. Its weight is read through leases: Lease() returns the weight as a detached
// tensor, in the dtype of the matmul. Its gradient is added with AddGradient() and the like.
//
// Model, objectives and trainer pass weights to one another only in this form. The weight is never
// part of an autograd graph: its user leases it, computes the gradient and adds it here. A tied
// embedding is one Parameter with two users, whose gradients are summed. Gradients are stored in
// fp32 (fp64 for an fp64 weight) whatever the weight's dtype, so that accumulation over
// micro-batches loses no precision.
//
// Weight and gradient are stored here unless they were moved to a home (parameter_home.h). Then
// weight() and gradient() are not available, and leases and gradients are collectives of all ranks
// that share the home. Users of weights make the same calls in both cases.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter_home.h"

namespace moonring::base {

class Parameter {
 public:
  // `name` is the published name (on Hugging Face).
  Parameter(std::string name, at::Tensor weight, bool trainable = true);
  // Stores a contiguous section of a weight of shape `whole`: `part` contains its flattened
  // elements from `begin` on.
  Parameter(std::string name, at::Tensor part, at::IntArrayRef whole, int64_t begin = 0);

  const std::string& name() const { return name_; }
  // Only before the parameter is used by its name.
  void Rename(std::string name) { name_ = std::move(name); }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // Shape of the whole weight, wherever it is stored.
  at::IntArrayRef shape() const { return shape_; }
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }  // of the stored weight
  at::Device device() const { return options_.device(); }                   // of leases
  int64_t numel() const { return c10::multiply_integers(shape_); }
  int64_t begin() const { return begin_; }  // index of weight()'s first element in the whole weight

  // The stored weight, for the optimizer. Throws if it was moved.
  at::Tensor& weight();
  const at::Tensor& weight() const { return const_cast<Parameter*>(this)->weight(); }

  // Keeps only rows [first, first + count) of dim 0 and frees the others, for users that need no
  // others: afterwards weight(), leases and gradients contain these rows, while shape() is still
  // that of the whole weight. Other ranks have the other rows, and `all` joins them. To be called
  // before the weight is moved or has a gradient.
  void KeepRows(int64_t first, int64_t count, std::shared_ptr<RowsOfAll> all);
  // Whether KeepRows was called, even for all rows.
  bool keeps_rows() const { return rows_of_all_ != nullptr; }
  const std::shared_ptr<RowsOfAll>& rows_of_all() const { return rows_of_all_; }

  // The whole weight in `dtype`, detached: the stored tensor itself if it has that dtype, otherwise
  // a copy.
  at::Tensor Lease(at::ScalarType dtype) const;
  // The same for a user of a few elements, who casts them itself: returns the stored tensor, in its
  // own dtype, if it is stored here.
  at::Tensor LeaseForPart(at::ScalarType dtype) const;
  // Whether a lease in another dtype than the stored one is kept for further leases, for many
  // forwards without an update. With false the copy is freed. Not used for a weight that was moved.
  // A kept copy does not reflect later writes to the weight.
  void KeepCast(bool keep);
  // The whole weight, detached, wherever it is stored. If rows are kept (KeepRows) it is a
  // collective of all ranks that have them.
  at::Tensor LeaseWhole(at::ScalarType dtype) const;
  // Whether LeaseWhole may be a collective of several ranks.
  bool is_spread() const { return away() || keeps_rows(); }
  // Starts the communication that the next Lease in `dtype` would wait for.
  void Fetch(at::ScalarType dtype) const;
  // Whether the weight was moved to a home, so that a lease may have to wait.
  bool away() const { return home_ != nullptr; }

  // Adds to the gradient. Throws if the shape is not the weight's, or if the parameter is frozen.
  void AddGradient(const at::Tensor& gradient);

  // The same for a tensor that the caller gives up: the first one is kept without a copy if dtype
  // and layout allow it. Undefined: this user has no gradient.
  void TakeGradient(at::Tensor gradient);

  // The same for some rows: adds rows_RD to the rows index_R (int64).
  void AddGradientRows(const at::Tensor& index_R, const at::Tensor& rows_RD);

  // Undefined if nothing was added since the last ClearGradient, or if the gradient was moved.
  const at::Tensor& gradient() const { return gradient_; }
  at::Tensor& mutable_gradient() { return gradient_; }
  // The gradient to add to; if there is none yet, zeros in gradient_dtype with the weight's shape.
  // Throws if the gradient was moved.
  at::Tensor& GradientOrZeros();
  // The gradient if matrix products may be added to it in place, i.e. it is stored here, whole and
  // on the weight's device; otherwise undefined.
  at::Tensor GradientToAddTo() const;
  // The whole gradient, wherever it is stored, like LeaseWhole; zeros if there is none.
  at::Tensor WholeGradient();
  void ClearGradient() { gradient_.reset(); }

  // fp64 for an fp64 weight, else fp32.
  at::ScalarType gradient_dtype() const {
    return dtype() == at::kDouble ? at::kDouble : at::kFloat;
  }

  // Leases come from `home` from here on; the weight stored here is freed.
  void MoveWeight(std::shared_ptr<WeightHome> home);
  const std::shared_ptr<WeightHome>& home() const { return home_; }
  // Gradients go to `sink` from here on; the gradient stored here is freed.
  void MoveGradient(std::shared_ptr<GradientSink> sink);

 private:
  void CheckGradient(const at::Tensor& gradient) const;

  std::string name_;
  at::Tensor weight_;  // undefined if moved
  at::Tensor gradient_;
  mutable at::Tensor cast_;  // the lease in another dtype, if kept
  bool keeps_cast_ = false;
  std::vector<int64_t> shape_;
  int64_t begin_ = 0;
  at::TensorOptions options_;
  bool trainable_;
  std::shared_ptr<RowsOfAll> rows_of_all_;  // null: all rows are kept
  std::shared_ptr<WeightHome> home_;        // null: here
  std::shared_ptr<GradientSink> sink_;      // null: here
};

using Parameters = std::vector<std::shared_ptr<Parameter>>;

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_PARAMETER_H_
