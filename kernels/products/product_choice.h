#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_

// Which library makes the CPU's fp32 products: MKL or oneDNN, both inside LibTorch.
//
// LibTorch gives fp32 to MKL always, which has AVX-512 kernels for Intel's processors alone; oneDNN
// has them for all. (bf16 it gives to oneDNN by itself, and fp64 only MKL has.) Both are exact
// fp32. They round differently, so that a run keeps what it began with: the choice is measured once
// (product_timing.h), or written in a configuration, and is a value that passes with the model's
// options and the head's. Where nothing is chosen all is MKL's, as LibTorch has it.
//
// A product is one of three forms, of a linear map's rows x, weight W and gradient dy; what is not
// laid out as the first or the last counts as the second:
//
//   forward           a b^T    x W^T
//   input_gradient    a b      dy W
//   weight_gradient   a^T b    dy^T x
//
// each wide or narrow: W's smaller side is less than kWide (keys and values of few heads, LoRA).
// The form depends on the weight alone, never on how many rows there are.

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
  // x W^T by few_rows.h, in which a row gives the same bits whatever rows are beside it: for who
  // decodes. Not of the text below.
  bool few_rows = false;

  bool TakesOneDnn(ProductForm form) const { return onednn[static_cast<size_t>(form)]; }
  friend bool operator==(const ProductChoice&, const ProductChoice&) = default;
};

// "mkl", "onednn", or those that oneDNN makes: "onednn:forward+narrow_forward", in the order above.
// Each is the other's inverse. INVALID_ARGUMENT says what may be written.
std::string ToString(const ProductChoice& choice);
absl::StatusOr<ProductChoice> ParseProductChoice(absl::string_view text);

// What one product of a form takes, in seconds.
struct ProductTiming {
  ProductForm form;
  double mkl_seconds = 0;
  std::optional<double> onednn_seconds;  // nothing: it is not there, or its numbers were others
};

// oneDNN for the forms in which it is faster by a twentieth: less is noise. MKL for those without a
// timing; of several of one form all must say so.
ProductChoice ChooseProducts(absl::Span<const ProductTiming> timings);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCT_CHOICE_H_
