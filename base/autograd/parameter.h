#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_H_

// A named parameter: a weight and its gradient. Code that uses the weight borrows it with Lease(),
// which returns it as a detached tensor in the dtype of the matmul (a lease), and adds the weight's
// gradient with AddGradient() or a similar method.
//
// Model, objectives and trainer pass weights to one another only in this form. The weight is never
// part of an autograd graph: the code that borrowed it computes the gradient and adds it here. A
// tied embedding is one Parameter that is used in two layers, whose gradients are summed. Gradients
// are stored in fp32 (fp64 for an fp64 weight) whatever the weight's dtype, so that accumulation
// over micro-batches loses no precision.
//
// Weight and gradient are stored in this object unless MoveWeight() or MoveGradient() has moved
// them elsewhere, for example to shards on several ranks (parameter_home.h). Then weight() and
// gradient() are not available, and borrowing the weight and adding a gradient are collectives of
// all ranks that share the weight. Code that uses weights makes the same calls in both cases.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter_home.h"

namespace moonring::base {

// The message for adding to a gradient that is summed over the ranks already.
inline constexpr char kAlreadySummed[] =
    "a backward after sum_gradients: its gradient is the sum over the ranks already, and the next "
    "sum would count that once per rank; expected clear_gradients() in between (of the states, "
    "where there are any)";

class Parameter {
 public:
  // `name` is the published name (on Hugging Face).
  Parameter(std::string name, at::Tensor weight, bool trainable = true);
  // Stores a contiguous section of a weight of shape `whole`: `part` contains its flattened
  // elements from `begin` on.
  Parameter(std::string name, at::Tensor part, at::IntArrayRef whole, int64_t begin = 0);

  const std::string& name() const { return name_; }
  // Must be called before anything refers to the parameter by its name.
  void Rename(std::string name) { name_ = std::move(name); }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // Shape of the whole weight, wherever it is stored.
  at::IntArrayRef shape() const { return shape_; }
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }  // of the stored weight
  at::Device device() const { return options_.device(); }                   // of tensors from Lease
  int64_t numel() const { return c10::multiply_integers(shape_); }
  int64_t begin() const { return begin_; }  // index of weight()'s first element in the whole weight

  // The stored weight, for the optimizer. Throws after MoveWeight.
  at::Tensor& weight();
  const at::Tensor& weight() const { return const_cast<Parameter*>(this)->weight(); }

  // Keeps only rows [first, first + count) of dim 0 and frees the others, for code that needs these
  // rows only. Afterwards weight(), Lease and gradients contain these rows, while shape() is still
  // that of the whole weight. Other ranks have the other rows, and `all` joins the rows of all
  // ranks. Must be called before the weight is moved or has a gradient.
  void KeepRows(int64_t first, int64_t count, std::shared_ptr<RowsOfAll> all);
  // Whether KeepRows was called, even for all rows.
  bool keeps_rows() const { return rows_of_all_ != nullptr; }
  const std::shared_ptr<RowsOfAll>& rows_of_all() const { return rows_of_all_; }

  // Returns the whole weight in `dtype`, detached, for the caller to read (a lease): the stored
  // tensor itself if it has that dtype, otherwise a copy.
  at::Tensor Lease(at::ScalarType dtype) const;
  // Like Lease, for a caller that reads only a few elements and casts them itself: if the weight is
  // stored here, returns it in the dtype in which it is stored.
  at::Tensor LeaseForPart(at::ScalarType dtype) const;
  // With true, the copy that Lease makes for a dtype other than the stored one is kept, and later
  // calls of Lease return it: for many forwards without an update. The kept copy does not reflect
  // later writes to the weight. With false, the copy is freed. Has no effect after MoveWeight.
  void KeepCast(bool keep);
  // Returns the whole weight, detached, wherever it is stored. After KeepRows this is a collective
  // of all ranks that have rows of the weight.
  at::Tensor LeaseWhole(at::ScalarType dtype) const;
  // Whether LeaseWhole may be a collective of several ranks.
  bool is_spread() const { return away() || keeps_rows(); }
  // Starts the communication that the next Lease in `dtype` would wait for.
  void Fetch(at::ScalarType dtype) const;
  // Whether MoveWeight has moved the weight, so that Lease may have to wait for communication.
  bool away() const { return home_ != nullptr; }

  // Adds to the gradient. Throws if the shape is not the weight's, or if the parameter is frozen.
  void AddGradient(const at::Tensor& gradient);

  // Like AddGradient, for a tensor that the caller does not use afterwards: the first gradient is
  // stored without a copy if its dtype and layout allow it. An undefined tensor means that there is
  // no gradient to add.
  void TakeGradient(at::Tensor gradient);

  // Adds rows_RD to the rows of the gradient that index_R (int64) names. Throws if the shapes or
  // the dtype of index_R do not fit the weight, or if the parameter is frozen.
  void AddGradientRows(const at::Tensor& index_R, const at::Tensor& rows_RD);

  // The stored gradient. Undefined if nothing was added since the last ClearGradient, or after
  // MoveGradient.
  const at::Tensor& gradient() const { return gradient_; }
  at::Tensor& mutable_gradient() { return gradient_; }
  // The gradient to add to; if there is none yet, zeros in gradient_dtype with the weight's shape.
  // Throws after MoveGradient.
  at::Tensor& GradientOrZeros();
  // Returns the gradient if matrix products may be added to it in place: it must exist, be stored
  // here, be whole and be on the weight's device. Otherwise returns an undefined tensor.
  at::Tensor GradientToAddTo() const;
  // Returns the whole gradient, wherever it is stored; zeros if there is none. May be a collective
  // of several ranks, like LeaseWhole.
  at::Tensor WholeGradient();
  void ClearGradient() {
    gradient_.reset();
    is_summed_ = false;
  }

  // Whether the gradient is summed over the ranks already (trainer/sharding/gradients.h). Then
  // adding to it throws until the next ClearGradient.
  bool is_summed() const { return is_summed_; }
  void set_summed(bool summed) { is_summed_ = summed; }
  // Whether MoveGradient has moved the gradient.
  bool gradient_away() const { return sink_ != nullptr; }

  // fp64 for an fp64 weight, else fp32.
  at::ScalarType gradient_dtype() const {
    return dtype() == at::kDouble ? at::kDouble : at::kFloat;
  }

  // Frees the weight stored here. From this call on Lease returns tensors of `home`.
  void MoveWeight(std::shared_ptr<WeightHome> home);
  const std::shared_ptr<WeightHome>& home() const { return home_; }
  // Frees the gradient stored here. From this call on gradients are passed to `sink`.
  void MoveGradient(std::shared_ptr<GradientSink> sink);

 private:
  void CheckAdds() const;  // throws if no gradient may be added now
  void CheckGradient(const at::Tensor& gradient) const;

  std::string name_;
  at::Tensor weight_;  // undefined after MoveWeight
  at::Tensor gradient_;
  mutable at::Tensor cast_;  // the copy in another dtype, if kept (KeepCast)
  bool keeps_cast_ = false;
  std::vector<int64_t> shape_;
  int64_t begin_ = 0;
  at::TensorOptions options_;
  bool trainable_;
  bool is_summed_ = false;
  std::shared_ptr<RowsOfAll> rows_of_all_;  // null: KeepRows was not called
  std::shared_ptr<WeightHome> home_;        // null: the weight is stored here
  std::shared_ptr<GradientSink> sink_;      // null: the gradient is stored here
};

using Parameters = std::vector<std::shared_ptr<Parameter>>;

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_PARAMETER_H_
