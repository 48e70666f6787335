#ifndef MOONRING_MODEL_BLOCKS_EXPERT_STACKS_H_
#define MOONRING_MODEL_BLOCKS_EXPERT_STACKS_H_

// The two tensors that stack all experts of a layer (ExpertStorage), oriented for matrix products,
// and the activation between the two products. Shapes: N rows, D features, I hidden features of an
// expert. `both` [N, 2 I] is the result of the first product: each row's gate and up features, in
// the order in which the stacked tensor stores them.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

struct ExpertStacks {
  const ExpertRule& rule;

  bool transposed() const { return IsTransposed(rule.storage); }
  // The right factor of x W: [E, D, 2 I] for gate_up, [E, I, D] for down.
  at::Tensor Right(const at::Tensor& stack) const {
    return transposed() ? stack : stack.transpose(1, 2);
  }
  // The right factor of x W for expert e alone.
  at::Tensor Right(const at::Tensor& stack, int64_t e) const {
    return transposed() ? stack.select(0, e) : stack.select(0, e).t();
  }

  // The gate features or the up features of `both`, as a view [N, I].
  at::Tensor Gate(const at::Tensor& both) const { return Half(both, 0); }
  at::Tensor Up(const at::Tensor& both) const { return Half(both, 1); }

  // Returns act(gate) * up, or gpt-oss's clamped product (gated_product.h): [N, I].
  at::Tensor Product(const at::Tensor& both, Activation activation) const;
  // Gradient of Product: [N, 2 I], contiguous. Overwrites `dproduct`.
  at::Tensor ProductBackward(at::Tensor dproduct, const at::Tensor& both,
                             Activation activation) const;

 private:
  at::Tensor Half(const at::Tensor& both, int64_t which) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERT_STACKS_H_
