#ifndef MOONRING_TRAINER_SHARDING_SHARDED_WEIGHT_H_
#define MOONRING_TRAINER_SHARDING_SHARDED_WEIGHT_H_

// A weight that is flattened and sharded over the ranks of a group (zero_cost.h). This rank stores
// its shard, the master, which the optimizer updates. A lease (Lease) gathers the whole weight for
// one use in a forward or backward pass.
//
//   nothing kept   a lease casts the shard to its dtype and gathers it
//   whole kept     stages 1 and 2 with bf16: a whole copy in the narrower dtype is kept, and is
//                  returned by leases in that dtype
//   shard kept     if the master is offloaded: a copy of the shard in a narrower dtype is kept, on
//                  the GPU or in pinned host memory, and leases gather it
//
// A shard on the host is copied to the GPU for each lease. In a group of one, the copy is made on a
// side stream and starts when Fetch is called. Its target is memory of the compute stream, which
// earlier work on that stream may still be using. The lease's stream waits for the copy; the host
// does not. Bus traffic: the bytes of the kept shard per lease.
//
// A lease in a wider dtype than the kept copy gathers the masters. Cost of a gather: P-1 steps, the
// bytes in zero_cost.h, and memory for the whole weight as long as the lease is in use. Each gather
// is a collective of the group. Throws the errors of the communicator.

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "base/autograd/parameter_home.h"
#include "base/memory/side_stream.h"
#include "comm/communicator.h"

namespace moonring::trainer {

class ShardedWeight : public base::WeightHome {
 public:
  // Copies this rank's shard of the parameter's weight.
  ShardedWeight(const base::Parameter& parameter, std::shared_ptr<comm::Communicator> group);

  void Fetch(at::ScalarType dtype) override;
  at::Tensor Lease(at::ScalarType dtype) override;
  // Writes the weight. `whole` has its shape and must be the same on all ranks of the group; no
  // communication.
  void Write(const at::Tensor& whole);

  at::Tensor& master() { return master_; }  // [shard], in the weight's dtype, on any device
  void set_master(at::Tensor master) { master_ = std::move(master); }
  void KeepWhole(at::Tensor whole) {
    kept_whole_ = std::move(whole);
  }  // `whole`: has the weight's shape, contiguous
  void KeepPart(at::ScalarType dtype, bool on_host);
  // The stream for copying shards from the host; by default the compute stream.
  void ComeFromHost(std::shared_ptr<base::SideStream> coming) { coming_ = std::move(coming); }
  void MoveToHost();  // moves the master to pinned host memory
  // Blocks the host until the shards in host memory are no longer being read; required before they
  // are written. Returns at once if gradients have arrived since the last read.
  void AwaitReads();

  bool keeps() const { return kept_whole_.defined() || kept_part_.defined(); }

  const std::vector<int64_t>& parts() const { return parts_; }

  // Updates the kept copy, if any, from the master. If a whole copy is kept, only this rank's
  // section of it is updated: the caller must gather the other ranks' sections with the returned
  // object.
  std::optional<comm::Communicator::Gathered> Refresh();
  int64_t bytes() const;  // size of the tensors kept between uses of the weight

 private:
  struct Flight {
    at::ScalarType dtype;
    at::Tensor whole;
    // the gather; nullopt in a group of one whose shard is on the host
    std::optional<comm::Communicator::Transfer> transfer;
    // set if `transfer` is nullopt: the stream to which the memory of `whole` belongs
    std::optional<c10::Stream> stream;
  };
  bool Keeps(const at::Tensor& kept, at::ScalarType dtype) const;
  Flight Come(const at::Tensor& part, at::ScalarType dtype);
  void DropFlight();
  int64_t begin() const;

  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> shape_, parts_;
  at::Device device_;  // device of leases
  at::Tensor master_, kept_whole_, kept_part_;
  std::optional<Flight> flight_;
  std::shared_ptr<base::SideStream> coming_;
  std::optional<c10::Event> come_;  // end of the last copy of a shard from the host, on coming_
};

// Writes a parameter's weight, wherever it is stored. Later forward passes and the optimizer use
// the new values. For a sharded weight, every rank must call it with the same tensor. Not allowed
// between a forward and its backward. Throws if the shape differs.
void WriteWeight(base::Parameter& parameter, const at::Tensor& whole);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_SHARDED_WEIGHT_H_
