#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_

// Matrix products (matmuls), which take most of a step's time: this file decides how each is
// computed.
//
// Shapes: a [M, K], b [K, N], of one dtype; either may be a transposed view, which is not copied.
// fp32 products on the CPU use the library that the thread's ProductScope chooses. fp16 products on
// the CPU are computed in fp32, which represents the product of any two fp16 numbers exactly;
// results are rounded to fp16 once. Not differentiable: callers have their own backward. Shapes
// that do not fit throw c10::Error. Any size may be 0; a sum over no terms is 0.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// Returns a b, in the dtype of a and b.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b);
// Stores a b in out, which is [M, N], of the same dtype.
void ProductInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// sum <- beta sum + alpha a b. The sum may have a wider dtype than a and b (fp32 for bf16 and
// fp16): then a GPU accumulates in it, and so does a CPU for fp16; a CPU's bf16 product is rounded
// to bf16 first. If beta is 0, the sum is not read.
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta = 1.0,
                double alpha = 1.0);

// Like AddProduct, for each matrix of a batch B: sum [B, M, N], a [B, M, K], b [B, K, N]. The sum
// has the dtype of a and b, or fp32 if they are 16-bit: then a CPU converts them to fp32 first.
void AddProducts(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta = 1.0,
                 double alpha = 1.0);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCTS_H_
