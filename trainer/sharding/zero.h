#ifndef MOONRING_TRAINER_SHARDING_ZERO_H_
#define MOONRING_TRAINER_SHARDING_ZERO_H_

// ZeRO: how the states of a run are sharded over ranks, and where optimizer states are stored
// (Rajbhandari et al. 2020, arXiv 1910.02054).
//
//   stage 0   nothing is sharded          stage 2   also gradients, summed into shards as they are
//                                                   computed
//   stage 1   the optimizer's state       stage 3   also weights, gathered for each lease
//
// The ranks of a shard group share the states; shard groups are replicas of each other, and ranks
// with the same shard in different groups sum their gradients (the hybrid sharding of LoongTrain,
// arXiv 2406.18485). Gradients are summed over all ranks and never averaged. Results equal those of
// stage 0 except for the order of sums. zero_cost.h has memory and communication; states.h applies
// this to a list of parameters.
//
// With `apart`, each sequence-parallel (sp) group has independent states, and gradients are not
// exchanged between sp groups (outer_steps.h). "All ranks" then means the ranks of one sp group.
//
// If each rank keeps different rows of a parameter (experts; Parameter::keeps_rows), the rows are
// not sharded further at any stage. Their gradient is already the sum over the ranks that share the
// experts; it is then summed over the ranks that keep the same rows.
//
// lockstep() is true if ranks with different micro-batches share weights or gradients. These ranks
// must run equally many forward and backward passes; ranks with fewer micro-batches run empty ones.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/memory/side_stream.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "trainer/sharding/state_memory.h"

namespace moonring::trainer {

enum class ZeroGroup { kWorld, kSp, kNode };
enum class Offload { kNone, kHost, kDisk };

struct ZeroOptions {
  int stage = 0;
  ZeroGroup group = ZeroGroup::kWorld;
  // kNode: number of consecutive ranks on a machine; 0: all ranks are on one
  int ranks_per_machine = 0;
  Offload offload = Offload::kNone;
  std::string folder;  // kDisk: folder of the file
  // matrices are stored in host memory and copied to the GPU for each use (lease); this includes
  // trainable matrices only if the optimizer is offloaded, which then updates them in host memory
  bool streams = false;
  bool cast_once = false;  // use the `held` dtype of States even if nothing is sharded or offloaded
  int expert_ranks = 1;    // number of consecutive ranks that share each layer's experts
  bool apart = false;      // sp groups have independent states; stages 1 to 3 then require kSp
  int64_t bucket_bytes = int64_t{32} << 20;
};

class Zero {
 public:
  // INVALID_ARGUMENT if the stage is invalid, ranks_per_machine or expert_ranks does not divide the
  // world size, experts are shared while states are offloaded, or `apart` is used while states or
  // experts are shared beyond an sp group. kDisk: errors of the folder. A collective of all ranks.
  static absl::StatusOr<std::shared_ptr<Zero>> Create(ZeroOptions options, comm::Mesh& mesh);

  const ZeroOptions& options() const { return options_; }
  const std::shared_ptr<comm::Communicator>& shards() const {
    return shards_;
  }  // the shard group; only this rank in stage 0
  const std::shared_ptr<comm::Communicator>& replicas() const {
    return replicas_;
  }  // the ranks with the same shard
  // The ranks that share the layers' experts, and the ranks that have the same experts.
  const std::shared_ptr<comm::Communicator>& experts() const { return experts_; }
  const std::shared_ptr<comm::Communicator>& expert_peers() const { return expert_peers_; }
  // null: next to the shards
  const std::shared_ptr<StateMemory>& memory() const { return memory_; }
  bool lockstep() const { return lockstep_; }

  // Stage 3: shards the weight if it is not sharded yet, and frees the whole one; a packed
  // (quantized) weight stays packed and is sharded once. A weight for which Streams() is true is
  // moved to the host. Otherwise, this has no effect. No communication.
  void Part(base::Parameter& parameter);
  // Whether the weight is stored in host memory and copied to the GPU for each use.
  bool Streams(const base::Parameter& parameter) const;
  // The stream on which weights are copied to `device`.
  const std::shared_ptr<base::SideStream>& Coming(at::Device device);

 private:
  explicit Zero(ZeroOptions options) : options_(std::move(options)) {}

  ZeroOptions options_;
  std::shared_ptr<comm::Communicator> shards_, replicas_, experts_, expert_peers_;
  std::shared_ptr<StateMemory> memory_;
  std::shared_ptr<base::SideStream> coming_;
  bool lockstep_ = false;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_ZERO_H_
