#include "base/memory/unshared.h"

namespace moonring::base {

bool IsUnshared(const at::Tensor& tensor) {
  if (tensor.use_count() != 1) return false;
  if (!tensor.is_view()) return tensor.storage().use_count() == 1;
  return tensor._base().use_count() == 1 && tensor.storage().use_count() == 2;
}

}  // namespace moonring::base
