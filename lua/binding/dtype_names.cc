#include "lua/binding/dtype_names.h"

#include <c10/util/Exception.h>

namespace moonring::lua {
namespace {

struct DtypeName {
  absl::string_view name;
  at::ScalarType dtype;
};

// The first name of each dtype is Moonring's; the others are PyTorch's.
constexpr DtypeName kDtypeNames[] = {
    {"fp32", at::kFloat},
    {"fp64", at::kDouble},
    {"bf16", at::kBFloat16},
    {"fp16", at::kHalf},
    {"int64", at::kLong},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"complex64", at::kComplexFloat},
    {"complex128", at::kComplexDouble},
    {"float32", at::kFloat},
    {"float", at::kFloat},
    {"float64", at::kDouble},
    {"double", at::kDouble},
    {"bfloat16", at::kBFloat16},
    {"float16", at::kHalf},
    {"half", at::kHalf},
    {"long", at::kLong},
    {"int", at::kInt},
    {"short", at::kShort},
    {"cfloat", at::kComplexFloat},
    {"cdouble", at::kComplexDouble},
};

}  // namespace

std::optional<at::ScalarType> FindDtype(absl::string_view name) {
  for (const DtypeName& each : kDtypeNames) {
    if (name == each.name) return each.dtype;
  }
  return std::nullopt;
}

at::ScalarType DtypeNamed(const std::string& name) {
  const std::optional<at::ScalarType> found = FindDtype(name);
  TORCH_CHECK_VALUE(
      found.has_value(),
      "dtype: expected fp32, fp64, bf16, fp16, int64, int32, int16, int8, uint8, bool, "
      "complex64 or complex128, got '",
      name, "'");
  return *found;
}

std::string NameOfDtype(at::ScalarType dtype) {
  for (const DtypeName& each : kDtypeNames) {
    if (each.dtype == dtype) return std::string(each.name);
  }
  return c10::toString(dtype);
}

}  // namespace moonring::lua
