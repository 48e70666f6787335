#ifndef MOONRING_COMM_PACKED_HOME_H_
#define MOONRING_COMM_PACKED_HOME_H_

// A frozen weight that lies packed (packed/weight_code.h): each lease unpacks it into a new tensor,
// which lives as long as somebody holds it.
//
//   whole      all parts are here: a lease costs one pass over them
//   sharded    of each part every rank of a group holds an even piece; Fetch begins to gather them,
//              Lease waits, unpacks and lets go of what was gathered. P-1 steps, and
//              (P-1)/P of the packed bytes to each rank: 4 bits a number travel, not 16
//
// Every lease of a dtype is of the same numbers, on every rank. Of a sharded weight Fetch and Lease
// are calls of all ranks of the group.

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

  // Keeps this rank's piece of each part; the same weight on all ranks of the group, once. No
  // communication.
  void Shard(std::shared_ptr<Communicator> group);

  const kernels::WeightCode& code() const { return *code_; }
  int64_t bytes() const;  // of what is held here between leases

 private:
  struct Flight {
    kernels::PackedWeight whole;
    Communicator::Transfer transfer;
  };

  std::shared_ptr<const kernels::WeightCode> code_;
  kernels::PackedWeight packed_;              // the whole; or of each part a piece
  std::vector<std::vector<int64_t>> pieces_;  // of each part, by rank, where sharded
  std::shared_ptr<Communicator> group_;       // null: whole
  std::optional<Flight> flight_;
};

// A frozen parameter of that name whose weight lies packed, and is leased on the parts' device.
// `dtype`: that which it would be stored in.
std::shared_ptr<base::Parameter> PackedParameter(std::string name,
                                                 std::shared_ptr<const kernels::WeightCode> code,
                                                 kernels::PackedWeight packed,
                                                 at::ScalarType dtype);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PACKED_HOME_H_
