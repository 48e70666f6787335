#include "trainer/sharding/states.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "base/memory/pinned_memory.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "trainer/sharding/gradients.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

// Gradient bytes of the largest block. A block consists of the trainable parameters whose names are
// equal up to their first number ("model.layers.7."). Names without a number belong to no block.
int64_t LargestBlock(const base::Parameters& parameters) {
  std::map<std::string, int64_t> blocks;
  int64_t most = 0;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    const auto digit = std::find_if(name.begin(), name.end(), absl::ascii_isdigit);
    const auto end = std::find_if_not(digit, name.end(), absl::ascii_isdigit);
    if (!parameter->trainable() || digit == name.end()) continue;
    int64_t& block = blocks[std::string(name.begin(), end)];
    block +=
        parameter->numel() * static_cast<int64_t>(c10::elementSize(parameter->gradient_dtype()));
    most = std::max(most, block);
  }
  return most;
}

}  // namespace

// The gradient sink of one parameter. The parameter owns it, so it only has a weak pointer to the
// states, which avoids a reference cycle.
class States::Sink : public base::GradientSink {
 public:
  Sink(std::weak_ptr<States> states, size_t slice) : states_(std::move(states)), slice_(slice) {}

  void Take(at::Tensor gradient) override { Open()->Take(slice_, std::move(gradient)); }
  at::Tensor Whole() override {
    const std::shared_ptr<States> states = Open();
    return states->WholeGradient(states->slices_[slice_]);
  }

 private:
  std::shared_ptr<States> Open() const {
    std::shared_ptr<States> states = states_.lock();
    TORCH_CHECK(states != nullptr,
                "trainer.states: a gradient for a parameter whose states were closed");
    return states;
  }

  std::weak_ptr<States> states_;
  size_t slice_;
};

absl::StatusOr<std::shared_ptr<States>> States::Create(std::shared_ptr<Zero> zero,
                                                       const base::Parameters& parameters,
                                                       std::optional<at::ScalarType> held) {
  const at::Device device =
      parameters.empty() ? at::Device(at::kCPU) : parameters.front()->device();
  const bool leaves = zero->options().offload != Offload::kNone && !device.is_cpu();
  auto sums = leaves ? std::make_shared<HostSums>(device, LargestBlock(parameters)) : nullptr;
  std::shared_ptr<States> states(new States(std::move(zero), device, std::move(sums)));
  for (const auto& parameter : parameters) {
    RETURN_IF_ERROR(base::TryTorch([&]() -> absl::Status {
                      states->zero_->Part(*parameter);
                      return parameter->trainable() ? states->Add(parameter, held)
                                                    : absl::OkStatus();
                    }),
                    "trainer.states: ", parameter->name());
  }
  return states;
}

absl::StatusOr<at::Tensor> States::Placed(at::Tensor master, bool spare) const {
  const Offload offload = zero_->options().offload;
  if (offload != Offload::kNone && !master.is_cpu()) {
    const at::Tensor there = base::PinnedTensor(master.sizes(), master.scalar_type());
    there.copy_(master);
    master = there;
  }
  if (offload != Offload::kDisk || !spare) return master;
  ASSIGN_OR_RETURN(at::Tensor mapped, zero_->memory()->Zeros(master.numel(), master.scalar_type()));
  mapped.copy_(master);
  zero_->memory()->Rest(mapped);
  return mapped;
}

// Creates the object from which forward passes get the weight (slice.home), if the master is stored
// separately from it. Returns the master, which is not yet moved to where it stays.
at::Tensor States::MakeHome(Slice& slice, base::Parameter& whole,
                            std::optional<at::ScalarType> held) {
  const bool narrower = held.has_value() && whole.shape().size() >= 2 &&
                        c10::elementSize(*held) < c10::elementSize(whole.dtype());
  const bool away = offloads(whole), on_disk = zero_->options().offload == Offload::kDisk;
  if (slice.home != nullptr) {  // stage 3: the weight is gathered from shards
    if (narrower && (away || on_disk))
      slice.home->KeepPart(*held, /*on_host=*/!on_disk || zero_->Streams(whole));
    if (away) slice.home->ComeFromHost(zero_->Coming(whole.device()));
    return slice.home->master();
  }
  const bool keeps = narrower && (sharded() || away || zero_->options().cast_once);
  if (!keeps && !away) return at::Tensor();
  // Forward passes use a whole copy that is kept on every rank; the master is a separate shard.
  slice.home = std::make_shared<ShardedWeight>(whole, zero_->shards());
  slice.home->KeepWhole(whole.weight().to(keeps ? *held : whole.dtype()).contiguous());
  whole.MoveWeight(slice.home);
  return slice.home->master();
}

absl::Status States::Add(const std::shared_ptr<base::Parameter>& whole,
                         std::optional<at::ScalarType> held) {
  at::NoGradGuard no_grad;
  Slice slice{whole, nullptr, std::dynamic_pointer_cast<ShardedWeight>(whole->home()), {}};
  if (whole->keeps_rows()) {
    if (!whole->weight().is_contiguous()) whole->weight() = whole->weight().contiguous();
    slice.rows = true;
    slice.shard = std::make_shared<base::Parameter>(whole->name(), whole->weight().view({-1}),
                                                    whole->shape(), whole->begin());
    rows_[slice.shard.get()] = whole->rows_of_all();
    shards_.push_back(slice.shard);
    slices_.push_back(std::move(slice));
    return absl::OkStatus();
  }
  const std::vector<int64_t> parts = PartsOf(whole->numel(), zero_->shards()->size());
  const int rank = zero_->shards()->rank();
  const int64_t begin = PartBegin(parts, rank);
  at::Tensor master = MakeHome(slice, *whole, held);
  if (slice.home != nullptr) {
    ASSIGN_OR_RETURN(master, Placed(std::move(master), /*spare=*/slice.home->keeps()));
    slice.home->set_master(master);
  } else {
    if (!whole->weight().is_contiguous()) whole->weight() = whole->weight().contiguous();
    master = whole->weight().view({-1}).narrow(0, begin, parts[rank]);
  }
  slice.shard =
      std::make_shared<base::Parameter>(whole->name(), std::move(master), whole->shape(), begin);
  if (offloads(*whole)) {
    slice.sum = std::make_unique<HostSum>();
    slice.sum->numbers = base::PinnedTensor({parts[rank]}, slice.shard->gradient_dtype());
  }
  if (sharded() || slice.home != nullptr)
    whole->MoveGradient(std::make_shared<Sink>(weak_from_this(), slices_.size()));
  shards_.push_back(slice.shard);
  slices_.push_back(std::move(slice));
  return absl::OkStatus();
}

void States::Take(size_t index, at::Tensor gradient) {
  Slice& slice = slices_[index];
  TORCH_CHECK_VALUE(!slice.shard->is_summed(), slice.shard->name(), ": ", base::kAlreadySummed);
  if (gradient.defined()) slice.touched = true;
  if (sharded() && zero_->options().stage >= 2) {
    base::ThrowIfError(scatter_.Add(slice.shard, std::move(gradient), slice.sum.get()));
  } else if (!gradient.defined()) {
    return;
  } else if (slice.sum != nullptr && !sharded()) {
    sums_->Add(*slice.sum, 0, gradient);
  } else if (slice.gradient.defined()) {
    slice.gradient.add_(gradient);
  } else {
    slice.gradient = gradient.to(slice.shard->gradient_dtype());
    base::CountAs(base::MemoryPart::kGradients, slice.gradient);
  }
}

absl::Status States::Settle() {
  at::Tensor touched = at::zeros({static_cast<int64_t>(slices_.size())}, at::kLong);
  for (size_t i = 0; i < slices_.size(); ++i) touched.data_ptr<int64_t>()[i] = slices_[i].touched;
  RETURN_IF_ERROR(zero_->shards()->AllReduceMax(touched),
                  "trainer.states: which parameters have a gradient");
  for (size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    const auto whole = slice.whole.lock();
    const bool plain = whole != nullptr && slice.home == nullptr &&
                       !Sharded(slice);  // the shard's gradient is a view of the parameter's
    if (plain && whole->gradient().defined())
      slice.shard->mutable_gradient() = whole->mutable_gradient().view({-1});
    if (plain) continue;
    if (touched.data_ptr<int64_t>()[i] == 0) {
      slice.shard->ClearGradient();
    } else if (slice.sum != nullptr) {
      slice.shard->mutable_gradient() = slice.sum->numbers;
    } else if (!sharded()) {
      slice.shard->mutable_gradient() = std::exchange(slice.gradient, at::Tensor()).view({-1});
    }
    if (sharded() && touched.data_ptr<int64_t>()[i] != 0 && zero_->options().stage < 2) {
      RETURN_IF_ERROR(
          scatter_.Add(slice.shard, std::exchange(slice.gradient, at::Tensor()), slice.sum.get()),
          slice.shard->name());
    }
    slice.touched = false;
  }
  RETURN_IF_ERROR(scatter_.Flush());
  return base::TryTorch([&] { AwaitHost(); });
}

void States::AwaitHost() {
  if (sums_ == nullptr) return;
  sums_->Wait();
  for (Slice& slice : slices_) {
    if (slice.sum != nullptr) slice.sum->any = false;
    if (slice.home != nullptr) slice.home->AwaitReads();
  }
}

// For rows of experts: if one of the ranks that share an expert has a gradient for its rows, the
// other ranks get zeros as their gradient.
absl::Status States::AgreeOnRows(const base::Parameters& rows) {
  if (rows.empty()) return absl::OkStatus();
  at::Tensor there = at::zeros({static_cast<int64_t>(rows.size())}, at::kLong);
  for (size_t i = 0; i < rows.size(); ++i)
    there.data_ptr<int64_t>()[i] = rows[i]->gradient().defined();
  RETURN_IF_ERROR(zero_->experts()->AllReduceMax(there),
                  "trainer.states: which experts have a gradient");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (there.data_ptr<int64_t>()[i] != 0) rows[i]->GradientOrZeros();
  }
  return absl::OkStatus();
}

base::Parameters States::ShardsOf(bool rows) const {
  base::Parameters shards;
  for (const Slice& slice : slices_) {
    if (slice.rows == rows) shards.push_back(slice.shard);
  }
  return shards;
}

absl::Status States::BeginSum() {
  for (Slice& slice : slices_) {
    const auto whole = slice.whole.lock();
    // Without shards the whole parameter has the gradient, and may have been cleared by itself.
    const bool plain = whole != nullptr && !whole->gradient_away();
    if (plain ? whole->is_summed() : slice.shard->is_summed())
      return absl::FailedPreconditionError(AlreadySummed(slice.shard->name()));
    slice.shard->set_summed(false);
  }
  return absl::OkStatus();
}

absl::Status States::SumGradients() {
  at::NoGradGuard no_grad;
  RETURN_IF_ERROR(BeginSum());
  RETURN_IF_ERROR(scatter_.Flush(), "trainer.states");
  RETURN_IF_ERROR(Settle());
  const std::shared_ptr<comm::Communicator>& replicas = zero_->replicas();
  const GradientSumOptions options{.bucket_bytes = zero_->options().bucket_bytes};
  RETURN_IF_ERROR(trainer::SumGradients(ShardsOf(/*rows=*/false), *replicas, options));
  const base::Parameters rows = ShardsOf(/*rows=*/true);
  if (!rows.empty())
    RETURN_IF_ERROR(trainer::SumGradients(rows, *zero_->expert_peers(), options), "experts");
  RETURN_IF_ERROR(AgreeOnRows(rows));
  // If only other replicas computed a gradient, the parameter's gradient becomes a view of the
  // shard's.
  for (Slice& slice : slices_) {
    const auto whole = slice.whole.lock();
    if (whole != nullptr && !whole->gradient_away()) whole->set_summed(true);
    if (whole == nullptr || slice.home != nullptr || Sharded(slice) ||
        whole->gradient().defined() || !slice.shard->gradient().defined())
      continue;
    whole->mutable_gradient() = slice.shard->mutable_gradient().view(whole->weight().sizes());
  }
  return absl::OkStatus();
}

absl::Status States::Publish() {
  at::NoGradGuard no_grad;
  std::vector<comm::Communicator::Gathered> batch;
  int64_t bytes = 0;
  const auto gather = [&]() -> absl::Status {
    if (batch.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(comm::Communicator::Transfer transfer, zero_->shards()->StartAllGather(batch));
    batch.clear();
    bytes = 0;
    return transfer.Wait();
  };
  for (Slice& slice : slices_) {
    std::optional<comm::Communicator::Gathered> next;
    if (slice.home != nullptr) {
      next = slice.home->Refresh();
    } else if (const auto whole = slice.whole.lock(); whole != nullptr && Sharded(slice)) {
      next = comm::Communicator::Gathered{whole->weight().view({-1}),
                                          PartsOf(whole->numel(), zero_->shards()->size())};
    }
    if (!next.has_value()) continue;
    bytes += static_cast<int64_t>(next->whole.nbytes());
    batch.push_back(*std::move(next));
    if (bytes >= zero_->options().bucket_bytes)
      RETURN_IF_ERROR(gather(), "trainer.states: ", slice.shard->name());
  }
  return gather();
}

void States::ClearGradients() {
  for (Slice& slice : slices_) {
    slice.shard->ClearGradient();
    slice.gradient.reset();
    slice.touched = false;
    if (slice.sum != nullptr) slice.sum->any = false;
    if (const auto whole = slice.whole.lock()) whole->ClearGradient();
  }
}

States::Bytes States::bytes() const {
  Bytes bytes;
  for (const Slice& slice : slices_) {
    const auto whole = slice.whole.lock();
    if (slice.home != nullptr) {
      bytes.weights += slice.home->bytes();
    } else if (whole != nullptr) {
      bytes.weights += static_cast<int64_t>(whole->weight().nbytes());
    }
    const bool shared = slice.home == nullptr && !Sharded(slice);  // weight and shard share memory
    if (slice.shard->gradient().defined() && !shared)
      bytes.gradients += static_cast<int64_t>(slice.shard->gradient().nbytes());
    if (whole != nullptr && whole->gradient().defined())
      bytes.gradients += static_cast<int64_t>(whole->gradient().nbytes());
    if (slice.gradient.defined()) bytes.gradients += static_cast<int64_t>(slice.gradient.nbytes());
  }
  return bytes;
}

}  // namespace moonring::trainer
