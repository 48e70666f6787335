#include "trainer/sharding/gradients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "kernels/choice.h"
#include "kernels/squared_norms.h"
#include "trainer/sharding/tensor_groups.h"

namespace moonring::trainer {
namespace {

// Collects slices of gradients of one dtype, up to the bucket size, for one all-reduce.
class Bucket {
 public:
  Bucket(comm::Communicator& group, int64_t bytes) : group_(group), bytes_(bytes) {}

  absl::Status Add(const at::Tensor& gradient) {
    // Parameter keeps gradients contiguous. Otherwise ranks might split their buckets differently.
    TORCH_INTERNAL_ASSERT(gradient.is_contiguous());
    at::Tensor flat = gradient.view({-1});
    if (filled_ > 0 && buffer_.scalar_type() != flat.scalar_type()) RETURN_IF_ERROR(Flush());
    const int64_t capacity = std::max<int64_t>(1, bytes_ / flat.element_size());
    for (int64_t begin = 0; begin < flat.numel();) {
      const int64_t count = std::min(capacity - filled_, flat.numel() - begin);
      at::Tensor slice = flat.narrow(0, begin, count);
      if (count == capacity) {  // a slice that fills a whole bucket needs no copy
        RETURN_IF_ERROR(group_.AllReduceSum(slice));
      } else {
        const base::MemoryScope memory(base::MemoryPart::kCommunication);
        if (!buffer_.defined() || buffer_.scalar_type() != flat.scalar_type())
          buffer_ = at::empty({capacity}, flat.options());
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
double SumOfSquaresAt(const T* values, int64_t count) {
  std::array<double, 16> lanes{};  // independent sums, so that the loop has no dependency chain
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane)
      lanes[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  }
  for (; i < count; ++i)
    lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Whether the host can read the gradient in place.
bool IsRead(const at::Tensor& gradient) {
  const at::ScalarType type = gradient.scalar_type();
  return gradient.is_cpu() && gradient.is_contiguous() &&
         (type == at::kFloat || type == at::kDouble);
}

// Sums fixed pieces of the tensor separately, so that the result does not depend on the number of
// threads.
double SumOfSquaresIn(const at::Tensor& gradient) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t count = gradient.numel(), pieces = (count + kPiece - 1) / kPiece;
  std::vector<double> sums(pieces);
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kPiece, length = std::min(kPiece, count - begin);
      sums[piece] = gradient.scalar_type() == at::kFloat
                        ? SumOfSquaresAt(gradient.const_data_ptr<float>() + begin, length)
                        : SumOfSquaresAt(gradient.const_data_ptr<double>() + begin, length);
    }
  });
  double sum = 0.0;
  for (const double piece : sums) sum += piece;
  return sum;
}

// Sum of squares of each of the gradients, which are on one device and have one dtype: fp64
// [gradients] on that device. Uses a few operators for all gradients, without copies or
// synchronization.
at::Tensor SumsWhereTheyLie(const std::vector<at::Tensor>& gradients) {
  if (kernels::UseKernel(gradients.front(), kernels::kSquaredNorms))
    return kernels::SquaredNorms(gradients);
  return at::stack(at::_foreach_norm(gradients, /*ord=*/2, at::kDouble)).square_();
}

bool HasGradient(const base::Parameter& parameter) {
  return parameter.trainable() && parameter.gradient().defined();
}

absl::Status SumOverRanks(const base::Parameters& parameters, comm::Communicator& group,
                          int64_t bucket_bytes) {
  at::NoGradGuard no_grad;
  at::Tensor present = at::zeros({static_cast<int64_t>(parameters.size())}, at::kLong);
  for (size_t i = 0; i < parameters.size(); ++i)
    present.data_ptr<int64_t>()[i] = HasGradient(*parameters[i]);
  RETURN_IF_ERROR(group.AllReduceMax(present), "trainer.gradients: which parameters have one");

  Bucket bucket(group, bucket_bytes);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (present.data_ptr<int64_t>()[i] == 0) continue;
    base::Parameter& parameter = *parameters[i];
    TORCH_CHECK(parameter.trainable(), "trainer.gradients: ", parameter.name(),
                " is frozen on rank ", group.rank(), " and has a gradient on another");
    RETURN_IF_ERROR(bucket.Add(parameter.GradientOrZeros()),
                    absl::StrCat("trainer.gradients: ", parameter.name()));
  }
  RETURN_IF_ERROR(bucket.Flush(), "trainer.gradients");
  return absl::OkStatus();
}

// Refuses gradients that are summed already, or that are not stored in these parameters.
absl::Status CheckUnsummed(const base::Parameters& parameters) {
  for (const auto& parameter : parameters) {
    if (parameter->is_summed())
      return absl::FailedPreconditionError(AlreadySummed(parameter->name()));
    if (parameter->gradient_away()) {
      return absl::FailedPreconditionError(
          absl::StrCat("sum_gradients: the gradient of ", parameter->name(),
                       " is stored by states: expected states:sum_gradients()"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string AlreadySummed(const std::string& name) {
  return absl::StrCat("sum_gradients: the gradient of ", name,
                      " is summed over the ranks already, and a second sum would count that once "
                      "per rank: expected one sum for each clear_gradients()");
}

absl::Status SumGradients(const base::Parameters& parameters, comm::Communicator& group,
                          GradientSumOptions options) {
  TORCH_CHECK(options.bucket_bytes > 0, "trainer.gradients: bucket_bytes is ", options.bucket_bytes,
              ", expected more than 0");
  RETURN_IF_ERROR(CheckUnsummed(parameters));
  if (group.size() > 1) RETURN_IF_ERROR(SumOverRanks(parameters, group, options.bucket_bytes));
  for (const auto& parameter : parameters) parameter->set_summed(parameter->trainable());
  return absl::OkStatus();
}

double SumOfSquares(const base::Parameters& parameters) {
  at::NoGradGuard no_grad;
  double sum = 0.0;
  TensorGroups<1> elsewhere;
  for (const auto& parameter : parameters) {
    if (!HasGradient(*parameter)) continue;
    const at::Tensor& gradient = parameter->gradient();
    if (IsRead(gradient)) {
      sum += SumOfSquaresIn(gradient);
    } else {
      elsewhere.Add({gradient});
    }
  }
  // One synchronization per device, whatever the number of gradients.
  for (const auto& [device, groups] : elsewhere.by_device()) {
    std::vector<at::Tensor> sums;
    for (const auto* group : groups) sums.push_back(SumsWhereTheyLie(group->lists[0]));
    sum += at::cat(sums).sum().item<double>();
  }
  return sum;
}

std::vector<double> SumsOfSquares(const base::Parameters& parameters) {
  at::NoGradGuard no_grad;
  std::vector<double> sums(parameters.size());
  TensorGroups<1> elsewhere;
  std::vector<size_t> places;  // indices of the parameters in `elsewhere`
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!HasGradient(*parameters[i])) continue;
    const at::Tensor& gradient = parameters[i]->gradient();
    if (IsRead(gradient)) {
      sums[i] = SumOfSquaresIn(gradient);
    } else {
      elsewhere.Add({gradient});
      places.push_back(i);
    }
  }
  for (const auto& [device, groups] : elsewhere.by_device()) {
    std::vector<at::Tensor> there;
    std::vector<size_t> members;
    for (const auto* group : groups) {
      there.push_back(SumsWhereTheyLie(group->lists[0]));
      members.insert(members.end(), group->members.begin(), group->members.end());
    }
    const at::Tensor here = at::cat(there).cpu();
    for (size_t i = 0; i < members.size(); ++i) {
      sums[places[members[i]]] = here.const_data_ptr<double>()[i];
    }
  }
  return sums;
}

double GlobalNorm(const base::Parameters& parameters) {
  return std::sqrt(SumOfSquares(parameters));
}

double ClipByNorm(const base::Parameters& parameters, double norm, double max_norm,
                  double loss_scale) {
  TORCH_CHECK(max_norm >= 0.0, "trainer.gradients: max_grad_norm is ", max_norm,
              ", expected 0 (no clipping) or more");
  TORCH_CHECK(std::isfinite(norm), "trainer.gradients: the gradient norm is ", norm,
              ", expected a finite one to clip by");
  TORCH_CHECK(std::isfinite(loss_scale) && loss_scale > 0.0, "trainer.gradients: loss_scale is ",
              loss_scale, ", expected more than 0");
  const double factor = max_norm == 0.0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
  const double multiplied = factor / loss_scale;
  if (multiplied == 1.0) return factor;
  at::NoGradGuard no_grad;
  TensorGroups<1> elsewhere;
  for (const auto& parameter : parameters) {
    if (!HasGradient(*parameter)) continue;
    at::Tensor& gradient = parameter->mutable_gradient();
    if (gradient.is_cpu()) {
      gradient.mul_(multiplied);
    } else {
      elsewhere.Add({gradient});
    }
  }
  for (const auto& group : elsewhere.groups()) at::_foreach_mul_(group.lists[0], multiplied);
  return factor;
}

std::vector<std::string> NonFiniteGradients(const base::Parameters& parameters) {
  std::vector<std::string> names;
  const std::vector<double> sums = SumsOfSquares(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    // For fp32, the sum of squares in fp64 cannot overflow, so it is non-finite exactly if an
    // element is. For fp64 it can, so the elements are checked as well.
    if (std::isfinite(sums[i])) continue;
    if (!at::isfinite(parameters[i]->gradient()).all().item<bool>())
      names.push_back(parameters[i]->name());
  }
  return names;
}

}  // namespace moonring::trainer
