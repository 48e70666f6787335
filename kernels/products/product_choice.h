#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_

// The choice of library for fp32 matmuls on the CPU: MKL or oneDNN, both contained in LibTorch.
//
// LibTorch always uses MKL for fp32, which has AVX-512 kernels only for Intel's processors; oneDNN
// has them for all. (For bf16 LibTorch uses oneDNN already, and only MKL has fp64.) Both are exact
// fp32, but they round differently, so a run must keep its choice. The choice is measured once
// (product_timing.h) or written in a configuration, and is passed as a value with the options of
// the model and of the head. By default everything uses MKL, as in LibTorch.
//
// A product has one of three forms, for a linear layer with rows x, weight W and output gradient
// dy; a product with any other layout counts as an input_gradient:
//
//   forward           a b^T    x W^T
//   input_gradient    a b      dy W
//   weight_gradient   a^T b    dy^T x
//
// Each is wide or narrow; narrow means that W's smaller side is less than kWide (keys and values of
// few heads, LoRA). This depends only on the weight, never on the number of rows of x.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::kernels {

enum class ProductForm {
  kForward,
  kInputGradient,
  kWeightGradient,
  kNarrowForward,
  kNarrowInputGradient,
  kNarrowWeightGradient,
};
inline constexpr int kProductForms = 6;
inline constexpr int64_t kWide = 256;

struct ProductChoice {
  std::array<bool, kProductForms> onednn{};  // false: MKL
  // Computes x W^T by few_rows.h, where a row gets the same bits whatever the other rows are: for
  // decoding. Not included in ToString().
  bool few_rows = false;

  bool TakesOneDnn(ProductForm form) const { return onednn[static_cast<size_t>(form)]; }
  friend bool operator==(const ProductChoice&, const ProductChoice&) = default;
};

// A choice as text: "mkl", "onednn", or the forms that oneDNN computes, in the order of
// ProductForm: "onednn:forward+narrow_forward". The two functions are inverses. The message of
// INVALID_ARGUMENT lists the valid values.
std::string ToString(const ProductChoice& choice);
absl::StatusOr<ProductChoice> ParseProductChoice(absl::string_view text);

// The time of one product of a form, in seconds.
struct ProductTiming {
  ProductForm form;
  double mkl_seconds = 0;
  std::optional<double> onednn_seconds;  // nullopt: not available, or wrong numbers
};

// Chooses oneDNN for the forms in which it is at least 5% faster: smaller differences are noise.
// MKL for forms without a timing; if a form has several timings, all must agree.
ProductChoice ChooseProducts(absl::Span<const ProductTiming> timings);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_
