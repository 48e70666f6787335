#ifndef MOONRING_BASE_AUTOGRAD_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_PARAMETER_H_

// A named parameter: it lends its weight by lease and takes its gradient in a sink.
//
// The only form in which model, objectives and trainer hand weights to one another. The weight is
// never part of an autograd graph: who uses it leases it (detached, in the dtype of the matmul),
// makes the gradient and adds it here. A tied embedding is one Parameter with two users, whose
// gradients meet in the sum. Gradients are held in fp32 (fp64 for an fp64 weight) whatever the
// weight's dtype, so accumulation over micro-batches loses nothing.
//
// Weight and gradient lie here, unless they were moved to a home (parameter_home.h): then weight()
// and gradient() are no more, and leases and gradients are calls of all ranks that share the home.
// What users of weights call works either way.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter_home.h"

namespace moonring::base {

class Parameter {
 public:
  // `name` is the published (Hugging Face) one.
  Parameter(std::string name, at::Tensor weight, bool trainable = true);
  // A part of a weight of shape `whole`: its flattened numbers from `begin` on.
  Parameter(std::string name, at::Tensor part, at::IntArrayRef whole, int64_t begin = 0);

  const std::string& name() const { return name_; }
  // Before anything has taken it by its name.
  void Rename(std::string name) { name_ = std::move(name); }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // Of the whole weight, wherever it lies.
  at::IntArrayRef shape() const { return shape_; }
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }  // the stored one
  at::Device device() const { return options_.device(); }                   // of what is leased
  int64_t numel() const { return c10::multiply_integers(shape_); }
  int64_t begin() const { return begin_; }  // of weight() in the whole one, in numbers

  // The stored weight, for the optimizer. Throws where it was moved.
  at::Tensor& weight();
  const at::Tensor& weight() const { return const_cast<Parameter*>(this)->weight(); }

  // Lets go of all but rows [first, first + count) of dim 0, for users of no others: from now on
  // weight(), leases and gradients are of these, and shape() is still the whole one's. Other ranks
  // have the others, and `all` joins them. Before it is moved or has a gradient.
  void KeepRows(int64_t first, int64_t count, std::shared_ptr<RowsOfAll> all);
  // Whether it was called, be it for all rows.
  bool keeps_rows() const { return rows_of_all_ != nullptr; }
  const std::shared_ptr<RowsOfAll>& rows_of_all() const { return rows_of_all_; }

  // The whole weight in `dtype`, detached: the stored tensor itself where the dtypes agree, else a
  // copy.
  at::Tensor Lease(at::ScalarType dtype) const;
  // The same, for a user of a few of its numbers who casts them: the stored tensor where it is
  // here.
  at::Tensor LeaseForPart(at::ScalarType dtype) const;
  // Whether a lease in another dtype than the stored one is kept and lent again, as many forwards
  // without an update want it. Off: it is let go. A weight that lies elsewhere is leased as ever;
  // one that is written to meanwhile is lent as it was.
  void KeepCast(bool keep);
  // The whole weight, detached, wherever its numbers lie: of one whose rows are kept a call of all
  // ranks that have them.
  at::Tensor LeaseWhole(at::ScalarType dtype) const;
  // Whether that may be a call of several ranks.
  bool is_spread() const { return away() || keeps_rows(); }
  // Begins what the next Lease in `dtype` would wait for.
  void Fetch(at::ScalarType dtype) const;
  // Whether a lease has to be waited for.
  bool away() const { return home_ != nullptr; }

  // Adds to the gradient. Throws where the shape is not the weight's. A frozen parameter refuses.
  void AddGradient(const at::Tensor& gradient);

  // The same for a tensor that the caller gives up: the first one is kept as it is, without a copy,
  // where dtype and layout allow. Undefined: this user has none.
  void TakeGradient(at::Tensor gradient);

  // The same of some rows: rows_RD are added to those of index_R (int64).
  void AddGradientRows(const at::Tensor& index_R, const at::Tensor& rows_RD);

  // Undefined where nothing was added since the last ClearGradient, and where it was moved.
  const at::Tensor& gradient() const { return gradient_; }
  at::Tensor& mutable_gradient() { return gradient_; }
  // The gradient to add into: zeros in gradient_dtype, of the weight's shape, where there was none.
  // Not where it was moved.
  at::Tensor& GradientOrZeros();
  // The gradient where products may be added right into it: it is here, whole, beside the weight;
  // undefined otherwise.
  at::Tensor GradientToAddTo() const;
  // The whole gradient, wherever it lies, as LeaseWhole; zeros where there is none.
  at::Tensor WholeGradient();
  void ClearGradient() { gradient_.reset(); }

  // fp64 for an fp64 weight, else fp32.
  at::ScalarType gradient_dtype() const {
    return dtype() == at::kDouble ? at::kDouble : at::kFloat;
  }

  // From now on leases come from `home`; the weight here is let go.
  void MoveWeight(std::shared_ptr<WeightHome> home);
  const std::shared_ptr<WeightHome>& home() const { return home_; }
  // From now on gradients go to `sink`; the one here is let go.
  void MoveGradient(std::shared_ptr<GradientSink> sink);

 private:
  void CheckGradient(const at::Tensor& gradient) const;

  std::string name_;
  at::Tensor weight_;  // undefined where it was moved
  at::Tensor gradient_;
  mutable at::Tensor cast_;  // what was leased in another dtype, where that is kept
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
