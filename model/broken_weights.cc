#include "model/broken_weights.h"

#include <cmath>
#include <cstdint>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "model/blocks/layers.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

constexpr int kShown = 3;
constexpr int64_t kPiece = int64_t{1} << 20;

}  // namespace

// Checks the weight piece by piece. A sum is finite only if all its terms are, so if the sum of a
// piece is finite, the piece is. In the other pieces, non-finite elements are counted one by one.
void BrokenWeights::Look(const std::string& name, const at::Tensor& weight) {
  int64_t count = 0;
  for (const at::Tensor& piece : weight.flatten().split(kPiece)) {
    const at::Tensor sum = piece.to(WideDtype(piece.scalar_type())).sum();
    if (std::isfinite(sum.item<double>())) continue;
    count += piece.isfinite().logical_not_().sum().item<int64_t>();
  }
  if (count == 0) return;
  if (++tensors_ > kShown) return;
  absl::StrAppend(&shown_, tensors_ > 1 ? ", " : "", name, " (", count, " of ", weight.numel(),
                  ")");
}

absl::Status BrokenWeights::Refuse(const std::string& where) const {
  if (tensors_ == 0) return absl::OkStatus();
  const char* const have = tensors_ == 1 ? " tensor has" : " tensors have";
  const char* const more = tensors_ > kShown ? ", ..." : "";
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": ", tensors_, have, " numbers that are NaN or infinite: ", shown_, more));
}

}  // namespace moonring::model
