#include "kernels/products/tf32_products.h"

#include <mutex>

#include <ATen/Context.h>

namespace moonring::kernels {
namespace {

// The number of active scopes that request TF32, and whether it was off before the first of them.
struct Scopes {
  std::mutex mutex;
  int count = 0;
  bool was_off = false;
};

Scopes& scopes() {
  static Scopes of_process;
  return of_process;
}

}  // namespace

Tf32Products::Tf32Products(bool wanted) : wanted_(wanted) {
  if (!wanted) return;
  Scopes& all = scopes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.count == 0) {
    all.was_off = !AreOn();
    // LibTorch has two names for this setting; this call sets both.
    if (all.was_off) at::globalContext().setAllowTF32CuBLAS(true);
  }
  ++all.count;
}

Tf32Products::~Tf32Products() {
  if (!wanted_) return;
  Scopes& all = scopes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (--all.count == 0 && all.was_off) at::globalContext().setAllowTF32CuBLAS(false);
}

bool Tf32Products::AreOn() { return at::globalContext().allowTF32CuBLAS(); }

}  // namespace moonring::kernels
