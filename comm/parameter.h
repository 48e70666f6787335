#ifndef MOONRING_COMM_PARAMETER_H_
#define MOONRING_COMM_PARAMETER_H_

// A named parameter: it lends its weight by lease and takes its gradient in a sink.
//
// The only form in which model, objectives and trainer hand weights to one another. The weight is never part of an
// autograd graph: who uses it leases it (detached, in the dtype of the matmul), makes the gradient and adds it here.
// A tied embedding is one Parameter with two users, whose gradients meet in the sum. Gradients are held in fp32 (fp64
// for an fp64 weight) whatever the weight's dtype, so accumulation over micro-batches loses nothing.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::comm {

class Parameter {
 public:
  // `name` is the published (Hugging Face) one.
  Parameter(std::string name, at::Tensor weight, bool trainable = true);

  const std::string& name() const { return name_; }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // The stored weight, for the optimizer and for saving. Its dtype is the stored one.
  at::Tensor& weight() { return weight_; }
  const at::Tensor& weight() const { return weight_; }

  // The weight in `dtype`, detached: the stored tensor itself where the dtypes agree, else a copy.
  at::Tensor Lease(at::ScalarType dtype) const;

  // Adds to the gradient. Throws where the shape is not the weight's. A frozen parameter refuses.
  void AddGradient(const at::Tensor& gradient);

  // The same for a tensor that the caller gives up: the first one is kept as it is, without a copy, where dtype and layout allow.
  void TakeGradient(at::Tensor gradient);

  // Undefined where nothing was added since the last ClearGradient.
  const at::Tensor& gradient() const { return gradient_; }
  at::Tensor& mutable_gradient() { return gradient_; }
  // The gradient to add into: zeros in gradient_dtype, of the weight's shape, where there was none.
  at::Tensor& GradientOrZeros();
  void ClearGradient() { gradient_.reset(); }

  // fp64 for an fp64 weight, else fp32.
  at::ScalarType gradient_dtype() const;

 private:
  std::string name_;
  at::Tensor weight_;
  at::Tensor gradient_;
  bool trainable_;
};

using Parameters = std::vector<std::shared_ptr<Parameter>>;

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PARAMETER_H_
