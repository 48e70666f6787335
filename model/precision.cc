#include "model/precision.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::model {
namespace {

struct PrecisionRow {
  const char* name;
  at::ScalarType weight, matmul;
};
constexpr PrecisionRow kRows[] = {
    {"fp32", at::kFloat, at::kFloat},   {"bf16", at::kFloat, at::kBFloat16},
    {"fp16", at::kFloat, at::kHalf},    {"pure_bf16", at::kBFloat16, at::kBFloat16},
    {"fp64", at::kDouble, at::kDouble},
};

}  // namespace

absl::StatusOr<TransformerOptions> OptionsOfPrecision(const std::string& precision) {
  for (const PrecisionRow& row : kRows) {
    if (precision != row.name) continue;
    return TransformerOptions{.weight_dtype = row.weight, .matmul_dtype = row.matmul};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "precision: expected fp32, bf16, fp16, pure_bf16 or fp64, got '", precision, "'"));
}

}  // namespace moonring::model
