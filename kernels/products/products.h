#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_

// Products of matrices, where most of a step's time goes: one place says how each is made.
//
// Shapes: a [M, K], b [K, N], of one dtype; either may be a transposed view, which moves nothing.
// The CPU's in fp32 are made by the library that the thread's ProductScope says. Its products of
// fp16 are those of the same numbers in fp32, which holds the product of any two of them; results
// are rounded to fp16 once.
// Not differentiable: who calls them has a backward of its own. Shapes that do not fit throw
// c10::Error. Any size may be 0; a sum over no terms is 0.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// a b, in the dtype of a and b.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b);
// a b into out, which is [M, N], of the same dtype.
void ProductInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// sum <- beta sum + alpha a b. The sum may be in a wider dtype than a and b (fp32 for bf16 and
// fp16): a GPU's product is then added up in it, and so is a CPU's of fp16; a CPU's of bf16 is
// rounded to bf16 first. Where beta is 0 the sum is not read.
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta = 1.0,
                double alpha = 1.0);

// The same of each of B: sum [B, M, N], a [B, M, K], b [B, K, N]. The sum is in the dtype of a and
// b or, where they are in 16 bits, in fp32: a CPU then makes the products of the same numbers in
// fp32.
void AddProducts(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta = 1.0,
                 double alpha = 1.0);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_
