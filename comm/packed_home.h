#ifndef MOONRING_COMM_PACKED_HOME_H_
#define MOONRING_COMM_PACKED_HOME_H_

// Stores a frozen weight packed, i.e. quantized (kernels/packed/weight_code.h). When a caller
// borrows the weight (Parameter::Lease), it is unpacked into a new tensor, which is freed with its
// last reference.
//
//   whole      this rank has all packed tensors: a Lease costs one pass over them
//   sharded    each of the P ranks of a group has an even shard of each packed tensor. Fetch starts
//              to gather the shards; Lease waits, unpacks, and frees the gathered tensors. Cost:
//              P-1 steps, and (P-1)/P of the packed bytes are sent to each rank: 4 bits for each
//              number, not 16
//
// Every Lease in a dtype returns the same values, on every rank. For a sharded weight Fetch and
// Lease are collectives: all ranks of the group call them.

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
  int64_t bytes() const;  // of the packed tensors on this rank

 private:
  struct Flight {
    kernels::PackedWeight whole;
    Communicator::Transfer transfer;
  };

  std::shared_ptr<const kernels::WeightCode> code_;
  kernels::PackedWeight packed_;              // each whole, or this rank's shard of each
  std::vector<std::vector<int64_t>> pieces_;  // [packed tensor][rank]: shard sizes
  std::shared_ptr<Communicator> group_;       // null: whole
  std::optional<Flight> flight_;
};

// Returns a frozen parameter whose weight is stored packed; its Lease unpacks the weight on the
// device of the packed tensors. `dtype`: the dtype that the parameter reports as its own, that of
// the unpacked weight.
std::shared_ptr<base::Parameter> PackedParameter(std::string name,
                                                 std::shared_ptr<const kernels::WeightCode> code,
                                                 kernels::PackedWeight packed,
                                                 at::ScalarType dtype);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PACKED_HOME_H_
