#ifndef MOONRING_TRAINER_STATES_H_
#define MOONRING_TRAINER_STATES_H_

// The states of a list of parameters under ZeRO (zero.h): each that learns has a shard on this
// rank, a one-dimensional Parameter of its name, and optimizer, norm and clipping see shards alone.
//
//   a step:  forward, backward ..   gradients come to the Parameters, or go on into shards (stages
//            2, 3)
//            SumGradients()         each shard's gradient is the sum over all ranks
//            Norm(), clip, Step     on shards()
//            Publish()              leases are of the new weights from here on
//            ClearGradients()
//
// Where nothing is sharded and nothing offloaded a shard is a view of the weight and its gradient
// one of the gradient: this is then plain data parallelism, bit for bit. Under `held` (bf16) the
// matrices that leases are of are in that dtype, and the shard is the fp32 master: where states are
// sharded, offloaded or Zero's cast_once asks for it. Masters of a GPU that are offloaded lie on
// its host, and so do gradients from when they are made (host_sums.h).
//
// Every call that returns a status, and each lease and gradient of a sharded parameter, is one of
// all ranks of its group. A parameter that no rank had a gradient for is left without one. The
// parameters outlive these states; a gradient that comes after their end throws.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/autograd/parameter_home.h"
#include "trainer/gradient_scatter.h"
#include "trainer/host_sums.h"
#include "trainer/sharded_weight.h"
#include "trainer/zero.h"

namespace moonring::trainer {

class States : public std::enable_shared_from_this<States> {
 public:
  // Stage 3 parts those that are not sharded yet, the frozen ones too. `held`: narrower than the
  // weights, for their matrices.
  static absl::StatusOr<std::shared_ptr<States>> Create(std::shared_ptr<Zero> zero,
                                                        const base::Parameters& parameters,
                                                        std::optional<at::ScalarType> held);

  // Of those that learn, in their order.
  const base::Parameters& shards() const { return shards_; }
  std::shared_ptr<const Zero> zero() const { return zero_; }

  absl::Status SumGradients();
  // sqrt of the sum of all gradients' squares in fp64, each number counted once, the same on all
  // ranks. NaN or infinite where a gradient is.
  absl::StatusOr<double> Norm() const;
  // Of each, by shards()' order.
  absl::StatusOr<std::vector<double>> Norms() const;
  // The names of those whose gradient holds a NaN or an infinity on any rank.
  absl::StatusOr<std::vector<std::string>> NonFinite() const;
  // The whole gradient of a parameter, once they are summed; undefined where nobody had one.
  // NOT_FOUND where none that learns has the name.
  absl::StatusOr<at::Tensor> Gradient(const std::string& name) const;
  absl::Status Publish();
  void ClearGradients();
  // The host has what a GPU sends, and may write what a GPU reads: between SumGradients, which
  // waits so, and the next forward it does.
  void AwaitHost();

  // Whether a shard is of rows that this rank alone of those that share experts has.
  bool KeepsRows(const base::Parameter& shard) const { return rows_.contains(&shard); }
  // Out of what each of these ranks has of such a shard, [numbers], the numbers of the whole. A
  // call of all of them; throws StatusError where it fails.
  at::Tensor JoinRows(const base::Parameter& shard, const at::Tensor& mine) const;

  // What this rank holds of the parameters that learn, between blocks: weights (masters included)
  // and gradients.
  struct Bytes {
    int64_t weights = 0, gradients = 0;
  };
  Bytes bytes() const;

 private:
  class Sink;
  struct Slice {
    std::weak_ptr<base::Parameter> whole;
    std::shared_ptr<base::Parameter> shard;
    std::shared_ptr<ShardedWeight> home;  // null where the shard is a view of the weight
    at::Tensor gradient;  // stage 1: the whole one on this rank, until it is scattered
    std::unique_ptr<HostSum> sum = nullptr;  // where the gradient's sum is made on a GPU's host
    bool touched = false;                    // a gradient came
    bool rows = false;                       // this rank's alone of those that share experts
  };
  States(std::shared_ptr<Zero> zero, at::Device device, std::shared_ptr<HostSums> sums)
      : zero_(std::move(zero)),
        sums_(std::move(sums)),
        scatter_(zero_->shards(), device, zero_->options().bucket_bytes, sums_) {}

  bool sharded() const { return zero_->shards()->size() > 1; }
  bool Sharded(const Slice& slice) const { return sharded() && !slice.rows; }
  // The shards that hold rows of their own, or the others.
  base::Parameters ShardsOf(bool rows) const;
  absl::Status AgreeOnRows(const base::Parameters& rows);
  absl::Status Add(const std::shared_ptr<base::Parameter>& whole,
                   std::optional<at::ScalarType> held);
  // The master where it is to lie: as it is, on the host, or on the disk where leases do not read
  // it (`spare`).
  absl::StatusOr<at::Tensor> Placed(at::Tensor master, bool spare) const;
  void Take(size_t slice, at::Tensor gradient);
  at::Tensor WholeGradient(const Slice& slice) const;
  // Clears the gradients of those that nobody touched, and starts those of stage 1.
  absl::Status Settle();

  // Where a GPU's masters lie on its host, or on a disk.
  bool offloads(const base::Parameter& whole) const {
    return zero_->options().offload != Offload::kNone && !whole.device().is_cpu();
  }
  at::Tensor MakeHome(Slice& slice, base::Parameter& whole, std::optional<at::ScalarType> held);

  std::shared_ptr<Zero> zero_;
  std::shared_ptr<HostSums> sums_;  // null where no gradient leaves a GPU
  std::vector<Slice> slices_;
  base::Parameters shards_;
  absl::flat_hash_map<const base::Parameter*, std::shared_ptr<base::RowsOfAll>> rows_;
  GradientScatter scatter_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_STATES_H_
