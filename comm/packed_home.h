#ifndef MOONRING_COMM_PACKED_HOME_H_
#define MOONRING_COMM_PACKED_HOME_H_

// The home of a frozen weight that is stored packed, i.e. quantized (packed/weight_code.h). Each
// lease unpacks it into a new tensor, which lives as long as it is referenced.
//
//   whole      this rank has all packed tensors: a lease costs one pass over them
//   sharded    each rank of a group has an even shard of each packed tensor. Fetch starts to gather
//              them; Lease waits, unpacks, and frees the gathered tensors. P-1 steps, and
//              (P-1)/P of the packed bytes to each rank: 4 bits a number are sent, not 16
//
// Every lease of a dtype has the same values, on every rank. For a sharded weight Fetch and Lease
// are collectives: all ranks of the group call them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "base/autograd/parameter_home.h"
#include "comm/communicator.h"
#include "kernels/packed/weight_code.h"

namespace moonring::comm {

class PackedHome : public base::WeightHome {
 public:
  PackedHome(std::shared_ptr<const kernels::WeightCode> code, kernels::PackedWeight packed);

  void Fetch(at::ScalarType dtype) override;
  at::Tensor Lease(at::ScalarType dtype) override;

  // Keeps only this rank's shard of each packed tensor. All ranks of the group call it once, with
  // the same weight. No communication.
  void Shard(std::shared_ptr<Communicator> group);

  const kernels::WeightCode& code() const { return *code_; }
  int64_t bytes() const;  // kept here between leases

 private:
  struct Flight {
    kernels::PackedWeight whole;
    Communicator::Transfer transfer;
  };

  std::shared_ptr<const kernels::WeightCode> code_;
  kernels::PackedWeight packed_;              // the whole, or a shard of each packed tensor
  std::vector<std::vector<int64_t>> pieces_;  // [packed tensor][rank]: sizes, if sharded
  std::shared_ptr<Communicator> group_;       // null: whole
  std::optional<Flight> flight_;
};

// A frozen parameter whose weight is stored packed, and is leased on the device of the packed
// tensors. `dtype`: the dtype that it would have if it were not packed.
std::shared_ptr<base::Parameter> PackedParameter(std::string name,
                                                 std::shared_ptr<const kernels::WeightCode> code,
                                                 kernels::PackedWeight packed,
                                                 at::ScalarType dtype);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PACKED_HOME_H_
