#include "kernels/products/product_scope.h"

namespace moonring::kernels {
namespace {

thread_local ProductChoice current;

}  // namespace

const ProductChoice& CurrentProducts() { return current; }

ProductScope::ProductScope(const ProductChoice& choice) : before_(current) { current = choice; }

ProductScope::~ProductScope() { current = before_; }

}  // namespace moonring::kernels
