#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_SCOPE_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_SCOPE_H_

// Chooses the library of a thread's matmuls (products.h) while a scope is alive.
//
// The choice is a value in the options of the code that runs a forward and its backward: the block
// runner and the head open a scope around their calls, so that layers need not pass it on. Scopes
// may be nested: the innermost one applies. Outside any scope the library is MKL. Code that starts
// a thread that computes matmuls must pass the choice on.

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

// The calling thread's choice.
const ProductChoice& CurrentProducts();

class ProductScope {
 public:
  explicit ProductScope(const ProductChoice& choice);
  ~ProductScope();
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

 private:
  const ProductChoice before_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCT_SCOPE_H_
