#ifndef MOONRING_TRAINER_GRADIENT_SCATTER_H_
#define MOONRING_TRAINER_GRADIENT_SCATTER_H_

// Gradients on their way into shards: each is summed over the ranks of a group and every rank adds
// its part (zero_cost.h) to its shard's gradient.
//
// They wait until they make up a bucket, then go through one reduce-scatter a bucket; a larger one
// is cut over several. The last bucket travels while the backward goes on: it is waited for where
// the next one is full, or by Flush. Every rank must add gradients of the same shards in the same
// order. Memory: the gradients that wait, up to a bucket beyond the last one, and the travelling
// bucket with this rank's part of it; what goes to a sum on the host leaves by host_sums.h. Cost:
// (P-1) steps a bucket, zero_cost.h's bytes; nothing but the sum into the shard in a group of one.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "trainer/host_sums.h"

namespace moonring::trainer {

class GradientScatter {
 public:
  // `device`: of the gradients. `sums`: null where no shard has a sum on the host.
  GradientScatter(std::shared_ptr<comm::Communicator> group, at::Device device,
                  int64_t bucket_bytes, std::shared_ptr<HostSums> sums)
      : group_(std::move(group)),
        device_(device),
        bucket_bytes_(bucket_bytes),
        sums_(std::move(sums)) {}

  // `gradient`: of the whole weight, contiguous; undefined: zeros. `sum`: where the shard's goes on
  // the host, which outlives the next Flush; null: into the shard's gradient.
  absl::Status Add(std::shared_ptr<base::Parameter> shard, at::Tensor gradient, HostSum* sum);

  // Sends what waits, and waits for what travels: then every gradient is in its sum.
  absl::Status Flush();

 private:
  struct Waiting {
    std::shared_ptr<base::Parameter> shard;
    HostSum* sum;
    at::Tensor flat;  // undefined: zeros
    std::vector<int64_t> parts;
  };
  // Numbers [begin, end) of each rank's part, as far as it has them.
  struct Piece {
    const Waiting* of;
    int64_t begin, end;
    int64_t numel(int rank) const;
  };
  // A part of this rank's in the bucket that travels.
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

#endif  // MOONRING_TRAINER_GRADIENT_SCATTER_H_
