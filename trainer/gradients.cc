#include "trainer/gradients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "comm/memory_account.h"
#include "comm/status_macros.h"

namespace moonring::trainer {
namespace {

// Slices of gradients of one dtype, up to a bucket's size, that go through one all-reduce.
class Bucket {
 public:
  Bucket(comm::Communicator& group, int64_t bytes) : group_(group), bytes_(bytes) {}

  absl::Status Add(const at::Tensor& gradient) {
    // Parameter keeps gradients contiguous; were it otherwise, ranks could cut their buckets differently.
    TORCH_INTERNAL_ASSERT(gradient.is_contiguous());
    at::Tensor flat = gradient.view({-1});
    if (filled_ > 0 && buffer_.scalar_type() != flat.scalar_type()) RETURN_IF_ERROR(Flush());
    const int64_t capacity = std::max<int64_t>(1, bytes_ / flat.element_size());
    for (int64_t begin = 0; begin < flat.numel();) {
      const int64_t count = std::min(capacity - filled_, flat.numel() - begin);
      at::Tensor slice = flat.narrow(0, begin, count);
      if (count == capacity) {  // a whole bucket by itself needs no copy
        RETURN_IF_ERROR(group_.AllReduceSum(slice));
      } else {
        const comm::MemoryScope memory(comm::MemoryPart::kCommunication);
        if (!buffer_.defined() || buffer_.scalar_type() != flat.scalar_type()) buffer_ = at::empty({capacity}, flat.options());
        buffer_.narrow(0, filled_, count).copy_(slice);
        slices_.push_back(slice);
        filled_ += count;
        if (filled_ == capacity) RETURN_IF_ERROR(Flush());
      }
      begin += count;
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (filled_ == 0) return absl::OkStatus();
    at::Tensor whole = buffer_.narrow(0, 0, filled_);
    RETURN_IF_ERROR(group_.AllReduceSum(whole));
    int64_t offset = 0;
    for (at::Tensor& slice : slices_) {
      slice.copy_(whole.narrow(0, offset, slice.numel()));
      offset += slice.numel();
    }
    slices_.clear();
    filled_ = 0;
    return absl::OkStatus();
  }

 private:
  comm::Communicator& group_;
  int64_t bytes_;
  at::Tensor buffer_;
  std::vector<at::Tensor> slices_;
  int64_t filled_ = 0;
};

template <class T>
double SumOfSquares(const T* values, int64_t count) {
  std::array<double, 16> lanes{};  // independent sums, so that the loop has no chain to wait for
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  }
  for (; i < count; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// On fixed pieces of the tensor, so that the number of threads moves no bit.
double SumOfSquares(const at::Tensor& gradient) {
  const bool plain = gradient.is_cpu() && gradient.is_contiguous() && (gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble);
  if (!plain) return gradient.to(at::kDouble).square_().sum().item<double>();
  constexpr int64_t kPiece = 1 << 16;
  const int64_t count = gradient.numel(), pieces = (count + kPiece - 1) / kPiece;
  std::vector<double> sums(pieces);
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kPiece, length = std::min(kPiece, count - begin);
      sums[piece] = gradient.scalar_type() == at::kFloat ? SumOfSquares(gradient.const_data_ptr<float>() + begin, length)
                                                         : SumOfSquares(gradient.const_data_ptr<double>() + begin, length);
    }
  });
  double sum = 0.0;
  for (const double piece : sums) sum += piece;
  return sum;
}

bool HasGradient(const comm::Parameter& parameter) { return parameter.trainable() && parameter.gradient().defined(); }

}  // namespace

absl::Status SumGradients(const comm::Parameters& parameters, comm::Communicator& group, GradientSumOptions options) {
  TORCH_CHECK(options.bucket_bytes > 0, "trainer.gradients: bucket_bytes is ", options.bucket_bytes, ", wanted more than 0");
  if (group.size() == 1) return absl::OkStatus();
  at::NoGradGuard no_grad;
  at::Tensor present = at::zeros({static_cast<int64_t>(parameters.size())}, at::kLong);
  for (size_t i = 0; i < parameters.size(); ++i) present.data_ptr<int64_t>()[i] = HasGradient(*parameters[i]);
  RETURN_IF_ERROR(group.AllReduceMax(present), "trainer.gradients: which parameters have one");

  Bucket bucket(group, options.bucket_bytes);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (present.data_ptr<int64_t>()[i] == 0) continue;
    comm::Parameter& parameter = *parameters[i];
    TORCH_CHECK(parameter.trainable(), "trainer.gradients: ", parameter.name(), " is frozen on rank ", group.rank(), " and has a gradient on another");
    RETURN_IF_ERROR(bucket.Add(parameter.GradientOrZeros()), absl::StrCat("trainer.gradients: ", parameter.name()));
  }
  RETURN_IF_ERROR(bucket.Flush(), "trainer.gradients");
  return absl::OkStatus();
}

double SumOfSquares(const comm::Parameters& parameters) {
  at::NoGradGuard no_grad;
  double sum = 0.0;
  for (const auto& parameter : parameters) {
    if (HasGradient(*parameter)) sum += SumOfSquares(parameter->gradient());
  }
  return sum;
}

double GlobalNorm(const comm::Parameters& parameters) { return std::sqrt(SumOfSquares(parameters)); }

double ClipByNorm(const comm::Parameters& parameters, double norm, double max_norm) {
  TORCH_CHECK(max_norm >= 0.0, "trainer.gradients: max_grad_norm is ", max_norm, ", wanted 0 (no clipping) or more");
  TORCH_CHECK(std::isfinite(norm), "trainer.gradients: the gradient norm is ", norm, ", wanted a finite one to clip by");
  const double factor = max_norm == 0.0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
  if (factor == 1.0) return factor;
  at::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    if (HasGradient(*parameter)) parameter->mutable_gradient().mul_(factor);
  }
  return factor;
}

std::vector<std::string> NonFiniteGradients(const comm::Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    // A sum of finite fp64 squares of fp32 numbers cannot overflow, so the norm tells; for fp64 a second look does.
    if (!HasGradient(*parameter) || std::isfinite(SumOfSquares(parameter->gradient()))) continue;
    if (!at::isfinite(parameter->gradient()).all().item<bool>()) names.push_back(parameter->name());
  }
  return names;
}

}  // namespace moonring::trainer
