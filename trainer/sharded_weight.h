#ifndef MOONRING_TRAINER_SHARDED_WEIGHT_H_
#define MOONRING_TRAINER_SHARDED_WEIGHT_H_

// A weight whose flattened numbers are sharded over the ranks of a group (zero_cost.h): this rank
// holds its part, the master, which the optimizer writes; a lease gathers the whole.
//
//   nothing kept   a lease casts the part to its dtype and gathers that
//   whole kept     stages 1 and 2 under bf16: the whole in a narrower dtype is here, and is what a
//                  lease in that dtype is of
//   part kept      where the master lies on a disk: the part in a narrower dtype, which gathers are
//                  of
//
// A lease in a wider dtype than what is kept gathers the masters. Cost of a gather: P-1 steps,
// zero_cost.h's bytes, the whole weight in memory for as long as the lease is held. Each is a call
// of all ranks of the group. Throws what the group's calls fail with.

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "comm/autograd/parameter.h"
#include "comm/autograd/parameter_home.h"
#include "comm/communicator.h"

namespace moonring::trainer {

class ShardedWeight : public comm::WeightHome {
 public:
  // Takes this rank's part of the parameter's weight, by copy.
  ShardedWeight(const comm::Parameter& parameter, std::shared_ptr<comm::Communicator> group);

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
  void KeepPart(at::ScalarType dtype);

  const std::vector<int64_t>& parts() const { return parts_; }

  // Where something is kept: brings it up to the master. With the whole kept the other ranks' parts
  // are still to come: returned, to be gathered.
  std::optional<comm::Communicator::Gathered> Refresh();
  int64_t bytes() const;  // of what is held between leases

 private:
  struct Flight {
    at::ScalarType dtype;
    at::Tensor whole;
    comm::Communicator::Transfer transfer;
  };
  bool Keeps(const at::Tensor& kept, at::ScalarType dtype) const;
  int64_t begin() const;

  std::shared_ptr<comm::Communicator> group_;
  std::vector<int64_t> shape_, parts_;
  at::Device device_;  // of leases
  at::Tensor master_, kept_whole_, kept_part_;
  std::optional<Flight> flight_;
};

// Writes a parameter's weight, wherever it lies: what is leased from here on is of these numbers,
// and so is the optimizer's master. Of a sharded weight every rank calls it with the same. Not
// between a forward and its backward. Throws where the shape is not the weight's.
void WriteWeight(comm::Parameter& parameter, const at::Tensor& whole);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDED_WEIGHT_H_
