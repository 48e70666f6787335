#ifndef MOONRING_LUA_BINDING_DTYPE_NAMES_H_
#define MOONRING_LUA_BINDING_DTYPE_NAMES_H_

// Names of dtypes in scripts: fp32, fp64, bf16, fp16, int64, int32, int16, int8, uint8, bool,
// complex64, complex128. PyTorch's names (float32, long, half, ..) are accepted as synonyms.

#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include "absl/strings/string_view.h"

namespace moonring::lua {

std::optional<at::ScalarType> FindDtype(absl::string_view name);

// Returns the dtype with this name. Throws for an unknown name.
at::ScalarType DtypeNamed(const std::string& name);

// Returns the script name of a dtype; LibTorch's name for a dtype that is not in the list above.
std::string NameOfDtype(at::ScalarType dtype);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_DTYPE_NAMES_H_
