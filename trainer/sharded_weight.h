#ifndef MOONRING_TRAINER_SHARDED_WEIGHT_H_
#define MOONRING_TRAINER_SHARDED_WEIGHT_H_

// A weight whose flattened numbers are sharded over the ranks of a group (zero_cost.h): this rank
// holds its part, the master, which the optimizer writes; a lease gathers the whole.
//
//   nothing kept   a lease casts the part to its dtype and gathers that
//   whole kept     stages 1 and 2 under bf16: the whole in a narrower dtype is here, and is what a
//                  lease in that dtype is of
//   part kept      where the master lies elsewhere: the part in a narrower dtype, which gathers are
//                  of; beside the GPU's weights, or in pinned memory of the host
//
// A part on the host comes to the GPU for each lease. In a group of one it comes on a stream beside
// the one that computes, from Fetch on, into memory of the latter (what it was given so far may
// still use that memory); the lease's stream waits for it, and the host for nothing. Bus: the kept
// part's bytes a lease.
//
// A lease in a wider dtype than what is kept gathers the masters. Cost of a gather: P-1 steps,
// zero_cost.h's bytes, the whole weight in memory for as long as the lease is held. Each is a call
// of all ranks of the group. Throws what the group's calls fail with.

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
  // Takes this rank's part of the parameter's weight, by copy.
  ShardedWeight(const base::Parameter& parameter, std::shared_ptr<comm::Communicator> group);

  void Fetch(at::ScalarType dtype) override;
  at::Tensor Lease(at::ScalarType dtype) override;
  // Writes the weight: `whole` is of its shape, and the same on all ranks of the group, which need
  // not meet for it.
  void Write(const at::Tensor& whole);

  at::Tensor& master() { return master_; }  // [part], in the weight's dtype, anywhere
  void set_master(at::Tensor master) { master_ = std::move(master); }
  void KeepWhole(at::Tensor whole) {
    kept_whole_ = std::move(whole);
  }  // of the weight's shape, contiguous
  void KeepPart(at::ScalarType dtype, bool on_host);
  // Parts on the host come on this stream; without it on the one that computes.
  void ComeFromHost(std::shared_ptr<base::SideStream> coming) { coming_ = std::move(coming); }
  void MoveToHost();  // the master, into pinned memory
  // The host waits until what lies there is no longer read: before it is written. Long done where
  // gradients have come since.
  void AwaitReads();

  bool keeps() const { return kept_whole_.defined() || kept_part_.defined(); }

  const std::vector<int64_t>& parts() const { return parts_; }

  // Where something is kept: brings it up to the master. With the whole kept the other ranks' parts
  // are still to come: returned, to be gathered.
  std::optional<comm::Communicator::Gathered> Refresh();
  int64_t bytes() const;  // of what is held between leases

 private:
  struct Flight {
    at::ScalarType dtype;
    at::Tensor whole;
    std::optional<comm::Communicator::Transfer> transfer;  // of a group of one that comes: none
    std::optional<c10::Stream> stream;                     // then: whose memory `whole` is
  };
  bool Keeps(const at::Tensor& kept, at::ScalarType dtype) const;
  Flight Come(const at::Tensor& part, at::ScalarType dtype);
  void DropFlight();
  int64_t begin() const;

  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> shape_, parts_;
  at::Device device_;  // of leases
  at::Tensor master_, kept_whole_, kept_part_;
  std::optional<Flight> flight_;
  std::shared_ptr<base::SideStream> coming_;
  std::optional<c10::Event> come_;  // the last read of a part on the host, on coming_
};

// Writes a parameter's weight, wherever it lies: what is leased from here on is of these numbers,
// and so is the optimizer's master. Of a sharded weight every rank calls it with the same. Not
// between a forward and its backward. Throws where the shape is not the weight's.
void WriteWeight(base::Parameter& parameter, const at::Tensor& whole);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDED_WEIGHT_H_
