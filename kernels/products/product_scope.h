#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_SCOPE_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_SCOPE_H_

// What a thread's products (products.h) are made by, while a scope lives.
//
// The choice is a value in the options of whoever runs a forward and its backward: the block runner
// and the head put it over what they call, so that layers need not hand it on. Scopes nest as
// MemoryScopes do. Outside of every scope it is the default, MKL. Who starts a thread that makes
// products hands its own on.

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

// This thread's.
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
