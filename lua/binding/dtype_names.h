#ifndef MOONRING_LUA_BINDING_DTYPE_NAMES_H_
#define MOONRING_LUA_BINDING_DTYPE_NAMES_H_

// What dtypes are called in scripts: fp32, fp64, bf16, fp16, int64, int32, int16, int8, uint8,
// bool, complex64, complex128. PyTorch's own names (float32, long, half, ..) are read too.

#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include "absl/strings/string_view.h"

namespace moonring::lua {

std::optional<at::ScalarType> FindDtype(absl::string_view name);

// Throws where there is none of that name.
at::ScalarType DtypeNamed(const std::string& name);

// LibTorch's own name for one that has none here.
std::string NameOfDtype(at::ScalarType dtype);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_DTYPE_NAMES_H_
