#include "lua/serve/loss_tensors.h"

#include <cmath>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "lua/serve/loss_request.h"

namespace moonring::serve {
namespace {

std::string Shown(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The number of elements of a shape; an error if it is negative somewhere or overflows.
absl::StatusOr<int64_t> CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return absl::InvalidArgumentError(absl::StrCat("no tensor has the shape ", Shown(shape)));
  }
  return count;
}

template <typename From, typename To>
at::Tensor Converted(absl::string_view bytes, at::ScalarType type) {
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(From));
  const at::Tensor values = at::empty({count}, type);
  if constexpr (std::is_same_v<From, To>) {
    if (count > 0) std::memcpy(values.data_ptr(), bytes.data(), bytes.size());
  } else {
    To* into = values.data_ptr<To>();
    for (int64_t i = 0; i < count; ++i) {
      From number;
      std::memcpy(&number, bytes.data() + i * sizeof(From), sizeof(From));
      into[i] = static_cast<To>(number);
    }
  }
  return values;
}

absl::Status CheckFinite(const at::Tensor& values) {
  if (values.scalar_type() != at::kFloat) return absl::OkStatus();
  const float* numbers = values.data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (!std::isfinite(numbers[i])) {
      return absl::InvalidArgumentError(absl::StrCat("number ", i, " is ",
                                                     std::isnan(numbers[i]) ? "nan"
                                                     : numbers[i] > 0       ? "inf"
                                                                            : "-inf",
                                                     "; expected finite numbers"));
    }
  }
  return absl::OkStatus();
}

// Checks the indices of a sparse matrix of this many rows, columns and values.
absl::Status CheckIndices(const SparseIndices& sparse, int64_t rows, int64_t columns,
                          int64_t values) {
  if (sparse.rows.numel() != rows + 1) {
    return absl::InvalidArgumentError(absl::StrCat("crow_indices has ", sparse.rows.numel(),
                                                   " numbers; expected ", rows + 1, " for ", rows,
                                                   " rows"));
  }
  if (sparse.columns.numel() != values) {
    return absl::InvalidArgumentError(absl::StrCat("col_indices has ", sparse.columns.numel(),
                                                   " numbers, but there are ", values, " values"));
  }
  const int64_t* begin = sparse.rows.data_ptr<int64_t>();
  if (begin[0] != 0 || begin[rows] != values) {
    return absl::InvalidArgumentError(absl::StrCat("crow_indices runs from ", begin[0], " to ",
                                                   begin[rows], "; expected 0 to ", values));
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (begin[row] > begin[row + 1]) {
      return absl::InvalidArgumentError(absl::StrCat("crow_indices falls from ", begin[row], " to ",
                                                     begin[row + 1], " at row ", row));
    }
  }
  const int64_t* column = sparse.columns.data_ptr<int64_t>();
  for (int64_t i = 0; i < values; ++i) {
    if (column[i] < 0 || column[i] >= columns) {
      return absl::InvalidArgumentError(absl::StrCat("col_indices has ", column[i],
                                                     "; expected 0 to ", columns - 1, " for ",
                                                     columns, " columns"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
void Fill(const at::Tensor& values, const SparseIndices& sparse, const at::Tensor& dense) {
  const int64_t* begin = sparse.rows.data_ptr<int64_t>();
  const int64_t* column = sparse.columns.data_ptr<int64_t>();
  const T* from = values.data_ptr<T>();
  T* into = dense.data_ptr<T>();
  const int64_t columns = dense.size(1);
  for (int64_t row = 0; row < dense.size(0); ++row) {
    for (int64_t i = begin[row]; i < begin[row + 1]; ++i) into[row * columns + column[i]] = from[i];
  }
}

}  // namespace

absl::StatusOr<WireDtype> WireDtypeOf(int64_t number) {
  if (number >= 1 && number <= 4) return static_cast<WireDtype>(number);
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype ", number, "; expected 1 (float32), 2 (int64), 3 (int32) or 4 (bfloat16)"));
}

const char* NameOf(WireDtype dtype) {
  switch (dtype) {
    case WireDtype::kFloat32:
      return "float32";
    case WireDtype::kInt64:
      return "int64";
    case WireDtype::kInt32:
      return "int32";
    case WireDtype::kBfloat16:
      return "bfloat16";
  }
  return "?";
}

int64_t SizeOf(WireDtype dtype) {
  return dtype == WireDtype::kInt64 ? 8 : dtype == WireDtype::kBfloat16 ? 2 : 4;
}

absl::StatusOr<at::Tensor> NumbersOf(absl::string_view bytes, WireDtype dtype) {
  if (bytes.size() % SizeOf(dtype) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes are no whole number of ",
                                                   NameOf(dtype), ", which has ", SizeOf(dtype),
                                                   " bytes"));
  }
  switch (dtype) {
    case WireDtype::kFloat32:
      return Converted<float, float>(bytes, at::kFloat);
    case WireDtype::kInt64:
      return Converted<int64_t, int64_t>(bytes, at::kLong);
    case WireDtype::kInt32:
      return Converted<int32_t, int64_t>(bytes, at::kLong);
    case WireDtype::kBfloat16:
      return Converted<c10::BFloat16, float>(bytes, at::kFloat);
  }
  return absl::InternalError("dtype");
}

absl::StatusOr<at::Tensor> ShapedTensor(at::Tensor values, WireDtype dtype,
                                        const std::vector<int64_t>& shape,
                                        const std::optional<SparseIndices>& sparse,
                                        int64_t& filled) {
  RETURN_IF_ERROR(CheckFinite(values));
  ASSIGN_OR_RETURN(const int64_t count, CountOf(shape));
  if (!sparse.has_value()) {
    if (shape.empty()) return values;
    if (count == values.numel()) return values.view(shape);
    return absl::InvalidArgumentError(
        absl::StrCat(values.numel() * SizeOf(dtype), " bytes are ", values.numel(), " numbers of ",
                     NameOf(dtype), ", but its shape ", Shown(shape), " has ", count));
  }
  if (shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a shape of rows and columns for a sparse tensor, got ", Shown(shape)));
  }
  RETURN_IF_ERROR(CheckIndices(*sparse, shape[0], shape[1], values.numel()));
  if (count > kMostFilledNumbers - filled) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sparse tensors of a request may have ", kMostFilledNumbers,
                     " numbers when they are dense; the shape ", Shown(shape), " exceeds that"));
  }
  filled += count;
  at::Tensor dense = at::zeros(shape, values.scalar_type());
  if (values.scalar_type() == at::kFloat) {
    Fill<float>(values, *sparse, dense);
  } else {
    Fill<int64_t>(values, *sparse, dense);
  }
  return dense;
}

}  // namespace moonring::serve
