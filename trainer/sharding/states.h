#ifndef MOONRING_TRAINER_SHARDING_STATES_H_
#define MOONRING_TRAINER_SHARDING_STATES_H_

// The training states of a list of parameters under ZeRO (zero.h). Each trainable parameter has a
// shard on this rank, a one-dimensional Parameter with the same name. Optimizer, norm and clipping
// only use shards.
//
//   a step:  forward, backward ..   gradients are stored in the Parameters, or passed on to shards
//            (stages 2, 3)
//            SumGradients()         each shard's gradient becomes the sum over all ranks
//            Norm(), clip, Step     on shards()
//            Publish()              forward passes use the new weights from here on
//            ClearGradients()
//
// If nothing is sharded and nothing offloaded, shards are views of the weights, and their gradients
// views of the gradients: this is plain data parallelism, bit for bit. With `held` (bf16), forward
// and backward passes use (lease) matrices in that dtype, and the shard is the fp32 master. This
// applies if states are sharded or offloaded, or with ZeroOptions::cast_once. Offloaded masters of
// a GPU are in host memory, and so are the gradients from the moment they are computed
// (host_sums.h).
//
// Every function that returns a status is a collective, and so is each use (lease) of a sharded
// parameter's weight and each gradient of it. A parameter without a gradient on any rank stays
// without one. The parameters must outlive the states; computing a gradient after the states are
// destroyed throws.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"
#include "base/autograd/parameter_home.h"
#include "trainer/sharding/gradient_scatter.h"
#include "trainer/sharding/host_sums.h"
#include "trainer/sharding/sharded_weight.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {

class States : public std::enable_shared_from_this<States> {
 public:
  // Stage 3 shards the parameters that are not sharded yet, including frozen ones. `held`: the
  // dtype, narrower than that of the weights, in which forward and backward passes use matrices.
  static absl::StatusOr<std::shared_ptr<States>> Create(std::shared_ptr<Zero> zero,
                                                        const base::Parameters& parameters,
                                                        std::optional<at::ScalarType> held);

  // The shards of trainable parameters, in order.
  const base::Parameters& shards() const { return shards_; }
  std::shared_ptr<const Zero> zero() const { return zero_; }

  // FAILED_PRECONDITION if they are summed already, since ClearGradients.
  absl::Status SumGradients();
  // The norm of all gradients in fp64, with each element counted once; the same on all ranks. NaN
  // or infinite if a gradient is.
  absl::StatusOr<double> Norm() const;
  // The norm of each gradient, in the order of shards().
  absl::StatusOr<std::vector<double>> Norms() const;
  // The names of parameters whose gradient has a NaN or infinity on any rank.
  absl::StatusOr<std::vector<std::string>> NonFinite() const;
  // The whole gradient of a parameter, after SumGradients; undefined if no rank had one. NOT_FOUND
  // if there is no trainable parameter of that name.
  absl::StatusOr<at::Tensor> Gradient(const std::string& name) const;

  // For a caller that changes gradients before clipping: those of this rank's shards, by name.
  using Gradients = std::map<std::string, at::Tensor>;
  // Moves the gradients out; the next backward begins at 0. No communication.
  Gradients TakeGradients();
  // Replaces a gradient by the whole one (the same on every rank) or by that of this rank's shard,
  // [elements]. Every rank must call it. No communication. Errors as Gradient, or of the shape.
  absl::Status SetGradient(const std::string& name, const at::Tensor& gradient);
  // The sum of a x b over all elements in fp64, each counted once; the same on all ranks.
  absl::StatusOr<double> Dot(const Gradients& a, const Gradients& b) const;
  absl::Status Publish();
  void ClearGradients();
  // Waits for all transfers between GPU and host, so that the host may read gradients and write
  // weights; needed only after a forward pass that follows SumGradients, which waits too.
  void AwaitHost();

  // Whether the shard consists of rows that no other rank of the expert group has.
  bool KeepsRows(const base::Parameter& shard) const { return rows_.contains(&shard); }
  // Joins the rows of a shard for which KeepsRows is true, from all ranks of the expert group, to
  // the whole weight's elements. `mine`: [elements]. A collective; throws StatusError on failure.
  at::Tensor JoinRows(const base::Parameter& shard, const at::Tensor& mine) const;

  // Bytes on this rank for trainable parameters, between blocks: weights (including masters) and
  // gradients.
  struct Bytes {
    int64_t weights = 0, gradients = 0;
  };
  Bytes bytes() const;

 private:
  class Sink;
  struct Slice {
    std::weak_ptr<base::Parameter> whole;
    std::shared_ptr<base::Parameter> shard;
    std::shared_ptr<ShardedWeight> home;     // null if the shard is a view of the weight
    at::Tensor gradient;                     // stage 1: the whole gradient, until it is scattered
    std::unique_ptr<HostSum> sum = nullptr;  // set if the gradient is summed in host memory
    bool touched = false;                    // a gradient arrived
    bool rows = false;  // rows of experts that only this rank of the expert group has
  };
  States(std::shared_ptr<Zero> zero, at::Device device, std::shared_ptr<HostSums> sums)
      : zero_(std::move(zero)),
        sums_(std::move(sums)),
        scatter_(zero_->shards(), device, zero_->options().bucket_bytes, sums_) {}

  bool sharded() const { return zero_->shards()->size() > 1; }
  bool Sharded(const Slice& slice) const { return sharded() && !slice.rows; }
  // The shards that are rows of experts which no other rank has, or all other shards.
  base::Parameters ShardsOf(bool rows) const;
  absl::Status AgreeOnRows(const base::Parameters& rows);
  absl::Status Add(const std::shared_ptr<base::Parameter>& whole,
                   std::optional<at::ScalarType> held);
  // Moves the master to where it stays: its present device, host memory, or the disk if forward
  // passes do not read it (`spare`).
  absl::StatusOr<at::Tensor> Placed(at::Tensor master, bool spare) const;
  void Take(size_t slice, at::Tensor gradient);
  at::Tensor WholeGradient(const Slice& slice) const;
  // Sums over the ranks: `sharded`, of shards, and `rows`, of experts' rows.
  absl::StatusOr<double> SumOfParts(double sharded, double rows, absl::string_view what) const;
  // Clears the shards' gradients of parameters that have no gradient on any rank, and starts the
  // reduce-scatter of stage 1.
  absl::Status Settle();
  // Refuses a second sum before ClearGradients.
  absl::Status BeginSum();

  // Whether the parameter is on a GPU and its master is offloaded to host memory or to disk.
  bool offloads(const base::Parameter& whole) const {
    return zero_->options().offload != Offload::kNone && !whole.device().is_cpu();
  }
  at::Tensor MakeHome(Slice& slice, base::Parameter& whole, std::optional<at::ScalarType> held);

  std::shared_ptr<Zero> zero_;
  std::shared_ptr<HostSums> sums_;  // null if no gradients are summed on the host
  std::vector<Slice> slices_;
  base::Parameters shards_;
  absl::flat_hash_map<const base::Parameter*, std::shared_ptr<base::RowsOfAll>> rows_;
  GradientScatter scatter_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_STATES_H_
