#ifndef MOONRING_TRAINER_SHARDING_GRADIENT_SCATTER_H_
#define MOONRING_TRAINER_SHARDING_GRADIENT_SCATTER_H_

// Reduce-scatters gradients into shards: each gradient is summed over the ranks of a group, and
// every rank adds its section of the sum (1/P of the elements, zero_cost.h) to its shard's
// gradient.
//
// Gradients are collected into buckets, with one reduce-scatter per bucket; a gradient larger than
// a bucket is split. The last bucket's communication overlaps with the backward pass: it is waited
// for when the next bucket is full, or in Flush. All ranks must add gradients of the same shards in
// the same order. Memory: the pending gradients, up to one bucket more than the bucket size, and
// the bucket in transit with this rank's section of it. Gradients that are summed in host memory
// are added by HostSums (host_sums.h). Cost in a group of P ranks: P - 1 communication steps per
// bucket, and the bytes in zero_cost.h. In a group of one, the only cost is the addition to the
// shard.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "trainer/sharding/host_sums.h"

namespace moonring::trainer {

class GradientScatter {
 public:
  // `device`: the device of the gradients. `sums`: adds the gradients that are summed in host
  // memory; null if there are none.
  GradientScatter(std::shared_ptr<comm::Communicator> group, at::Device device,
                  int64_t bucket_bytes, std::shared_ptr<HostSums> sums)
      : group_(std::move(group)),
        device_(device),
        bucket_bytes_(bucket_bytes),
        sums_(std::move(sums)) {}

  // `gradient`: the gradient of the whole weight, contiguous; undefined means zeros. `sum`: the
  // shard's sum in host memory, which must live until the next Flush has returned; if it is null,
  // this rank's section is added to the shard's gradient.
  absl::Status Add(std::shared_ptr<base::Parameter> shard, at::Tensor gradient, HostSum* sum);

  // Sends pending gradients and waits for all communication. All sums are then complete.
  absl::Status Flush();

 private:
  struct Waiting {
    std::shared_ptr<base::Parameter> shard;
    HostSum* sum;
    at::Tensor flat;  // undefined: zeros
    std::vector<int64_t> parts;
  };
  // Elements [begin, end) of each rank's section, clipped to the section's size.
  struct Piece {
    const Waiting* of;
    int64_t begin, end;
    int64_t numel(int rank) const;
  };
  // A section of this rank in the bucket in transit.
  struct Arriving {
    std::shared_ptr<base::Parameter> shard;
    HostSum* sum;
    int64_t begin, count;
  };
  struct Travelling {
    comm::Communicator::Reduction reduction;
    std::vector<Arriving> parts;
  };
  absl::Status SendWaiting();
  absl::Status Send(const std::vector<Piece>& pieces);
  absl::Status Arrive();

  std::shared_ptr<comm::Communicator> group_;
  at::Device device_;
  int64_t bucket_bytes_;
  std::shared_ptr<HostSums> sums_;
  std::vector<Waiting> waiting_;
  int64_t waiting_bytes_ = 0;
  std::optional<Travelling> travelling_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_GRADIENT_SCATTER_H_
