// States: what is read of the gradients after their sum over ranks, and their replacement.

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "trainer/sharding/gradients.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {

absl::StatusOr<double> States::SumOfParts(double sharded, double rows,
                                          absl::string_view what) const {
  at::Tensor sum = at::full({1}, sharded, at::kDouble);
  RETURN_IF_ERROR(zero_->shards()->AllReduceSum(sum), "trainer.states: ", what);
  if (!ShardsOf(/*rows=*/true).empty()) {
    at::Tensor of_rows = at::full({1}, rows, at::kDouble);
    RETURN_IF_ERROR(zero_->experts()->AllReduceSum(of_rows), "trainer.states: ", what,
                    " of the experts");
    sum.add_(of_rows);
  }
  return sum.item<double>();
}

absl::StatusOr<double> States::Norm() const {
  ASSIGN_OR_RETURN(const double sum,
                   SumOfParts(SumOfSquares(ShardsOf(/*rows=*/false)),
                              SumOfSquares(ShardsOf(/*rows=*/true)), "the gradients' norm"));
  return std::sqrt(sum);
}

absl::StatusOr<std::vector<double>> States::Norms() const {
  const std::vector<double> mine = SumsOfSquares(shards_);
  at::Tensor sums = at::zeros({static_cast<int64_t>(shards_.size())}, at::kDouble),
             of_rows = at::zeros_like(sums);
  for (size_t i = 0; i < slices_.size(); ++i)
    (slices_[i].rows ? of_rows : sums).data_ptr<double>()[i] = mine[i];
  RETURN_IF_ERROR(zero_->shards()->AllReduceSum(sums), "trainer.states: the gradients' norms");
  if (!ShardsOf(/*rows=*/true).empty())
    RETURN_IF_ERROR(zero_->experts()->AllReduceSum(of_rows),
                    "trainer.states: the norms of the experts' gradients");
  const double* const of = sums.add_(of_rows).data_ptr<double>();
  std::vector<double> norms(of, of + shards_.size());
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

absl::StatusOr<std::vector<std::string>> States::NonFinite() const {
  at::Tensor broken = at::zeros({static_cast<int64_t>(shards_.size())}, at::kLong);
  const std::vector<std::string> mine = NonFiniteGradients(shards_);  // in the order of shards()
  for (size_t i = 0, next = 0; i < shards_.size() && next < mine.size(); ++i) {
    if (shards_[i]->name() != mine[next]) continue;
    broken.data_ptr<int64_t>()[i] = 1;
    ++next;
  }
  RETURN_IF_ERROR(zero_->shards()->AllReduceMax(broken),
                  "trainer.states: which gradients are not finite");
  if (!ShardsOf(/*rows=*/true).empty())
    RETURN_IF_ERROR(zero_->experts()->AllReduceMax(broken),
                    "trainer.states: which gradients of experts are not finite");
  std::vector<std::string> names;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (broken.data_ptr<int64_t>()[i] != 0) names.push_back(shards_[i]->name());
  }
  return names;
}

absl::StatusOr<at::Tensor> States::Gradient(const std::string& name) const {
  for (const Slice& slice : slices_) {
    if (slice.shard->name() != name) continue;
    if (!slice.shard->gradient().defined()) return at::Tensor();
    at::Tensor whole;
    RETURN_IF_ERROR(base::TryTorch([&] { whole = WholeGradient(slice); }),
                    "trainer.states: ", name);
    return whole;
  }
  return absl::NotFoundError(absl::StrCat("trainer.states: no trainable parameter ", name));
}

States::Gradients States::TakeGradients() {
  Gradients taken;
  for (const Slice& slice : slices_) {
    const at::Tensor& gradient = slice.shard->gradient();
    if (!gradient.defined()) continue;
    // The host's sum is a buffer that the next backward writes to.
    taken[slice.shard->name()] = slice.sum != nullptr ? gradient.clone() : gradient;
  }
  ClearGradients();
  return taken;
}

absl::Status States::SetGradient(const std::string& name, const at::Tensor& gradient) {
  for (Slice& slice : slices_) {
    base::Parameter& shard = *slice.shard;
    if (shard.name() != name) continue;
    return base::TryTorch([&] {
      at::NoGradGuard no_grad;
      const int64_t elements = shard.weight().numel();
      const bool is_shard = gradient.dim() == 1 && gradient.numel() == elements;
      TORCH_CHECK_VALUE(
          gradient.is_floating_point() && (is_shard || gradient.sizes() == shard.shape()),
          "trainer.states: the gradient of ", name,
          ": expected a floating type of "
          "shape ",
          shard.shape(), ", or of this rank's shard, [", elements, "]; got ",
          gradient.scalar_type(), " ", gradient.sizes());
      const at::Tensor mine =
          is_shard ? gradient : gradient.reshape({-1}).narrow(0, shard.begin(), elements);
      at::Tensor own =
          slice.sum != nullptr
              ? slice.sum->numbers
              : at::empty({elements}, shard.weight().options().dtype(shard.gradient_dtype()));
      shard.mutable_gradient() = own.copy_(mine);
      shard.set_summed(true);
      if (slice.sum == nullptr) base::CountAs(base::MemoryPart::kGradients, own);
      const auto whole = slice.whole.lock();
      if (whole != nullptr && !whole->gradient_away()) whole->set_summed(true);
      if (whole != nullptr && slice.home == nullptr && !Sharded(slice))
        whole->mutable_gradient() = own.view(whole->weight().sizes());
    });
  }
  return absl::NotFoundError(absl::StrCat("trainer.states: no trainable parameter ", name));
}

absl::StatusOr<double> States::Dot(const Gradients& a, const Gradients& b) const {
  at::NoGradGuard no_grad;
  double sharded = 0, rows = 0;
  RETURN_IF_ERROR(base::TryTorch([&] {
    for (const Slice& slice : slices_) {
      const auto left = a.find(slice.shard->name()), right = b.find(slice.shard->name());
      if (left == a.end() || right == b.end()) continue;
      const double dot =
          left->second.to(at::kDouble).dot(right->second.to(at::kDouble)).item<double>();
      (slice.rows ? rows : sharded) += dot;
    }
  }));
  return SumOfParts(sharded, rows, "the product of two gradients");
}

at::Tensor States::JoinRows(const base::Parameter& shard, const at::Tensor& mine) const {
  std::vector<int64_t> shape = shard.shape().vec();
  const int64_t row = std::max<int64_t>(shard.numel() / std::max<int64_t>(shape[0], 1), 1);
  shape[0] = mine.numel() / row;
  return rows_.at(&shard)->Join(mine.contiguous().view(shape)).view({-1});
}

at::Tensor States::WholeGradient(const Slice& slice) const {
  at::NoGradGuard no_grad;
  const base::Parameter& shard = *slice.shard;
  if (slice.rows) return JoinRows(shard, slice.shard->GradientOrZeros()).view(shard.shape());
  const std::vector<int64_t> parts = PartsOf(shard.numel(), zero_->shards()->size());
  const int rank = zero_->shards()->rank();
  const at::Tensor part = slice.shard->GradientOrZeros();
  const at::Tensor whole = at::empty({shard.numel()}, part.options());
  whole.narrow(0, PartBegin(parts, rank), parts[rank]).copy_(part);
  comm::Communicator::Transfer transfer =
      base::ValueOrThrow(zero_->shards()->StartAllGather({{whole, parts}}));
  base::ThrowIfError(transfer.Wait());
  return whole.view(shard.shape());
}

}  // namespace moonring::trainer
