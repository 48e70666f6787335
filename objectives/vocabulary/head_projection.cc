#include "objectives/vocabulary/head_projection.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/autograd/custom_function.h"
#include "kernels/products/onednn_products.h"
#include "kernels/products/product_scope.h"
#include "kernels/products/products.h"

namespace moonring::objectives {
namespace {

constexpr int64_t kRowsOnGpu = 4096;  // rows of a chunk

}  // namespace

void CheckProjection(const char* caller, const at::Tensor& hidden, const base::Parameter& head,
                     const ProjectionOptions& options) {
  const at::IntArrayRef shape_VD = head.shape();
  TORCH_CHECK_VALUE(shape_VD.size() == 2, caller, ": head ", head.name(), " has shape ", shape_VD,
                    ", expected [vocab, hidden]");
  TORCH_CHECK_VALUE(hidden.dim() == 2 && hidden.size(1) == shape_VD[1], caller,
                    ": hidden states of shape ", hidden.sizes(), ", head ", head.name(),
                    " of shape ", shape_VD);
  TORCH_CHECK_VALUE(hidden.is_floating_point(), caller, ": hidden states of ", hidden.scalar_type(),
                    ", expected a floating type");
  TORCH_CHECK_VALUE(options.chunk_bytes > 0, caller, ": chunk_bytes is ", options.chunk_bytes,
                    ", expected more than 0");
  TORCH_CHECK_VALUE(options.chunk_rows >= 0, caller, ": chunk_rows is ", options.chunk_rows,
                    ", expected 0 (by device) or more");
  TORCH_CHECK_VALUE(options.head.softcap >= 0.0, caller, ": softcap is ", options.head.softcap,
                    ", expected 0 (none) or more");
  TORCH_CHECK_VALUE(at::isFloatingType(options.matmul_dtype), caller, ": matmul_dtype is ",
                    options.matmul_dtype, ", expected a floating type");
  TORCH_CHECK_VALUE(options.vocabulary >= 0 && options.vocabulary <= shape_VD[0], caller,
                    ": vocabulary is ", options.vocabulary, ", head ", head.name(), " has ",
                    shape_VD[0], " ids");
  if (options.head.low_rank.has_value())
    CheckLowRank(caller, *options.head.low_rank, shape_VD, hidden.size(0));
  if (!options.head.bias_V) return;
  const at::IntArrayRef bias_V = options.head.bias_V->shape();
  TORCH_CHECK_VALUE(bias_V.size() == 1 && bias_V[0] == shape_VD[0], caller, ": bias of shape ",
                    bias_V, ", head of shape ", shape_VD);
}

HeadRecording RecordHead(const at::Tensor& hidden_TD, const base::Parameter& head,
                         const HeadOptions& options) {
  const bool records = at::GradMode::is_enabled();
  const bool low_rank_learns =
      options.low_rank.has_value() &&
      (options.low_rank->a_RD->trainable() || options.low_rank->b_VR->trainable());
  const bool learns =
      head.trainable() || low_rank_learns || (options.bias_V && options.bias_V->trainable());
  return {base::Anchor(records && learns), records && (learns || hidden_TD.requires_grad())};
}

int64_t ChunkRows(int64_t rows, int64_t row_bytes, int64_t chunk_bytes) {
  int64_t most = std::max<int64_t>(1, chunk_bytes / std::max<int64_t>(1, row_bytes));
  if (most > kernels::kRowBlock) most -= most % kernels::kRowBlock;
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return std::max<int64_t>(1, (rows + chunks - 1) / chunks);
}

at::Tensor GatherRows(const at::Tensor& source_TD, const at::Tensor& rows_N, int64_t begin,
                      int64_t count) {
  if (rows_N.size(0) == source_TD.size(0)) return source_TD.narrow(0, begin, count);
  return source_TD.index_select(0, rows_N.narrow(0, begin, count));
}

HeadProjection::HeadProjection(const base::Parameter& head, const ProjectionOptions& options,
                               const at::Tensor& hidden, const at::Tensor& rows_N)
    : matmul_dtype_(hidden.scalar_type() == at::kDouble ? at::kDouble : options.matmul_dtype),
      dtype_(matmul_dtype_ == at::kDouble ? at::kDouble : at::kFloat),
      scale_(options.head.scale),
      softcap_(options.head.softcap),
      chunk_bytes_(options.chunk_bytes),
      chunk_rows_(options.chunk_rows > 0 ? options.chunk_rows
                  : hidden.is_cpu()      ? 1
                                         : kRowsOnGpu),
      products_(options.head.products),
      weight_VD_(head.Lease(matmul_dtype_)) {
  if (options.head.bias_V) bias_V_ = options.head.bias_V->Lease(dtype_).mul(scale_);
  if (options.head.low_rank.has_value())
    low_rank_.emplace(*options.head.low_rank, matmul_dtype_, hidden, rows_N);
  if (options.vocabulary == 0) return;
  if (low_rank_.has_value()) low_rank_->Narrow(options.vocabulary);
  weight_VD_ = weight_VD_.narrow(0, 0, options.vocabulary);
  if (bias_V_.defined()) bias_V_ = bias_V_.narrow(0, 0, options.vocabulary);
}

int64_t HeadProjection::row_bytes(bool as_made) const {
  const auto of_product = static_cast<int64_t>(c10::elementSize(matmul_dtype_));
  if (!rounded() || (as_made && !bias_V_.defined())) return vocabulary() * of_product;
  return vocabulary() * (static_cast<int64_t>(c10::elementSize(dtype_)) + of_product);
}

at::Tensor HeadProjection::TimesTransposed(const at::Tensor& hidden_RD, int64_t begin) {
  const kernels::ProductScope scope(products_);
  const at::Tensor scaled_RD =
      (scale_ == 1.0 ? hidden_RD : hidden_RD.mul(scale_)).to(matmul_dtype_);
  at::Tensor product_RV =
      FirstRows(rounded() ? rounded_RV_ : logits_RV_, matmul_dtype_, hidden_RD.size(0));
  kernels::ProductInto(product_RV, scaled_RD, weight_VD_.t());
  if (low_rank_.has_value()) low_rank_->AddTo(product_RV, scaled_RD, begin);
  return product_RV;
}

int64_t HeadProjection::chunk_bytes(bool as_made) const {
  return std::max(chunk_bytes_, chunk_rows_ * row_bytes(as_made));
}

at::Tensor HeadProjection::Scores(const at::Tensor& hidden_RD, int64_t begin) {
  at::Tensor scores_RV = TimesTransposed(hidden_RD, begin);
  if (rounded()) scores_RV = FirstRows(logits_RV_, dtype_, hidden_RD.size(0)).copy_(scores_RV);
  if (bias_V_.defined()) scores_RV.add_(bias_V_);
  return scores_RV;
}

at::Tensor HeadProjection::ScoresAsMade(const at::Tensor& hidden_RD, int64_t begin) {
  return bias_V_.defined() ? Scores(hidden_RD, begin) : TimesTransposed(hidden_RD, begin);
}

at::Tensor HeadProjection::ForProducts(const at::Tensor& gradient_RV) {
  if (gradient_RV.scalar_type() == matmul_dtype_) return gradient_RV;
  return FirstRows(rounded_RV_, matmul_dtype_, gradient_RV.size(0)).copy_(gradient_RV);
}

at::Tensor HeadProjection::ForProducts(const at::Tensor& gradient_RV, const at::Tensor& factor_R) {
  at::Tensor rounded_RV = FirstRows(rounded_RV_, matmul_dtype_, gradient_RV.size(0));
  return at::mul_out(rounded_RV, gradient_RV, factor_R.unsqueeze(1));
}

at::Tensor HeadProjection::TimesWeight(const at::Tensor& gradient_RV) const {
  const kernels::ProductScope scope(products_);
  return kernels::Product(gradient_RV, weight_VD_).to(dtype_);
}

at::Tensor HeadProjection::FirstRows(at::Tensor& buffer_RV, at::ScalarType dtype,
                                     int64_t rows) const {
  constexpr int64_t kNumbers = 8;  // 8 numbers: at least 16 bytes
  if (!buffer_RV.defined() || buffer_RV.size(0) < rows) {
    // On a GPU, rows are padded to a multiple of 16 bytes, since aligned rows are read and written
    // faster.
    const int64_t width =
        weight_VD_.is_cpu() ? vocabulary() : (vocabulary() + kNumbers - 1) / kNumbers * kNumbers;
    buffer_RV =
        at::empty({rows, width}, weight_VD_.options().dtype(dtype)).narrow(1, 0, vocabulary());
  }
  return buffer_RV.narrow(0, 0, rows);
}

HeadGradients::HeadGradients(HeadProjection& projection, base::Parameter& head,
                             const HeadOptions& options, const at::Tensor& hidden_TD,
                             bool hidden_wanted, at::Tensor rows_N, at::Tensor factor_N)
    : projection_(projection),
      head_(head),
      bias_(options.bias_V && options.bias_V->trainable() ? options.bias_V : nullptr),
      rows_N_(std::move(rows_N)),
      factor_N_(std::move(factor_N)) {
  const auto like = at::TensorOptions().device(hidden_TD.device()).dtype(projection.dtype());
  if (hidden_wanted) hidden_TD_ = at::zeros_like(hidden_TD, at::MemoryFormat::Contiguous);
  // Products are added to the Parameter's gradient directly, except on a CPU with a gradient of the
  // scores that is not rounded: these products are added when they are complete (reason:
  // block_runner.h).
  if (projection.rounded() || !hidden_TD.is_cpu()) head_VD_ = head.GradientToAddTo();
  into_parameter_ = head_VD_.defined();
  if (head.trainable() && !into_parameter_) {
    head_VD_ = at::empty(head.shape(), like);
    // The first chunk overwrites the rows of all used ids, so only the other rows are zeroed; if
    // there is no chunk, all rows are.
    const int64_t written = rows_N_.size(0) == 0 ? 0 : projection.vocabulary();
    head_VD_.narrow(0, written, head_VD_.size(0) - written).zero_();
  }
  if (bias_) bias_V_ = at::zeros(bias_->shape(), like);
  if (projection.low_rank() != nullptr)
    low_rank_.emplace(*options.low_rank, *projection.low_rank(), projection.dtype());
}

void HeadGradients::Add(int64_t begin, const at::Tensor& hidden_RD, const at::Tensor& gradient_RV) {
  const int64_t count = hidden_RD.size(0), vocabulary = projection_.vocabulary();
  const at::Tensor factor_R = factor_N_.narrow(0, begin, count);
  const bool inside = projection_.factor_in_gradient();
  at::Tensor multiplied_RV, of_low_rank_RD;
  if (hidden_TD_.defined() || head_VD_.defined() || low_rank_.has_value())
    multiplied_RV = inside ? projection_.ForProducts(gradient_RV, factor_R)
                           : projection_.ForProducts(gradient_RV);
  if (low_rank_.has_value()) {
    const kernels::ProductScope scope(projection_.products());
    of_low_rank_RD =
        low_rank_->Add(multiplied_RV, hidden_RD, inside ? at::Tensor() : factor_R.unsqueeze(1),
                       begin, /*hidden_wanted=*/hidden_TD_.defined());
  }
  if (hidden_TD_.defined()) {
    at::Tensor row_gradient_RD = projection_.TimesWeight(multiplied_RV);
    if (!inside) row_gradient_RD.mul_(factor_R.unsqueeze(1));
    if (of_low_rank_RD.defined()) row_gradient_RD.add_(of_low_rank_RD);
    hidden_TD_.index_copy_(0, rows_N_.narrow(0, begin, count),
                           row_gradient_RD.to(hidden_TD_.scalar_type()));
  }
  if (head_VD_.defined()) {
    const kernels::ProductScope scope(projection_.products());
    const at::Tensor weighted_RD =
        inside ? hidden_RD : hidden_RD.to(projection_.dtype()).mul(factor_R.unsqueeze(1));
    kernels::AddProduct(head_VD_.narrow(0, 0, vocabulary), multiplied_RV.t(),
                        weighted_RD.to(multiplied_RV.scalar_type()),
                        /*beta=*/begin == 0 && !into_parameter_ ? 0.0 : 1.0);
  }
  if (bias_) bias_V_.narrow(0, 0, vocabulary).addmv_(gradient_RV.t(), factor_R);
}

at::Tensor HeadGradients::Finish() {
  if (head_VD_.defined() && !into_parameter_) head_.TakeGradient(std::move(head_VD_));
  if (bias_) bias_->TakeGradient(std::move(bias_V_));
  if (low_rank_.has_value()) low_rank_->Finish();
  return std::move(hidden_TD_);
}

}  // namespace moonring::objectives
