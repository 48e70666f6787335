#ifndef MOONRING_KERNELS_BY_TYPE_H_
#define MOONRING_KERNELS_BY_TYPE_H_

// Dispatches a dtype known at run time to a compile-time type, for .cu files:
//
//   ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, stream); });

#include "kernels/language.h"

namespace moonring::kernels::KERNEL_SIDE {

// Calls `launch` with a value of the C++ type that `type` names.
template <typename F>
void ByType(Type type, const F& launch) {
  switch (type) {
    case Type::kFloat:
      return launch(float{});
    case Type::kDouble:
      return launch(double{});
    case Type::kBf16:
      return launch(Bf16{});
    case Type::kHalf:
      return launch(Half{});
  }
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_BY_TYPE_H_
