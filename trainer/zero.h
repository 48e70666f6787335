#ifndef MOONRING_TRAINER_ZERO_H_
#define MOONRING_TRAINER_ZERO_H_

// ZeRO: how the states of a run are sharded over ranks, and where the optimizer's lie (Rajbhandari
// et al. 2020, arXiv 1910.02054).
//
//   stage 0   nothing is sharded          stage 2   gradients too, summed into shards as they are
//                                                   made
//   stage 1   the optimizer's state      stage 3   weights too, gathered for each lease
//
// The ranks of a group part the states; the groups are replicas of one another, and sum their
// shards' gradients with those that hold the same part (LoongTrain's hybrid, arXiv 2406.18485).
// Gradients are summed over all ranks, averaged nowhere. Numbers are stage 0's but for the order of
// sums. zero_cost.h has memory and bytes; states.h is what acts on a list of parameters.
//
// Apart, each sp group has states of its own, which nobody else's gradients come to: what is said
// here of all ranks is then said of an sp group's (outer_steps.h).
//
// A parameter of which each rank keeps rows of its own (Parameter::keeps_rows: experts) lies as it
// is in every stage: its gradient is the sum over the ranks that share it already, and is summed
// with those that keep the same rows.
//
// In lockstep ranks of different streams share weights or gradients: they must run as many
// forwards, and backwards, as one another, with empty micro-batches where one has fewer.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/memory/side_stream.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "trainer/state_memory.h"

namespace moonring::trainer {

enum class ZeroGroup { kWorld, kSp, kNode };
enum class Offload { kNone, kHost, kDisk };

struct ZeroOptions {
  int stage = 0;
  ZeroGroup group = ZeroGroup::kWorld;
  int ranks_per_machine = 0;  // kNode: neighbouring ranks of a machine; 0: all are on one
  Offload offload = Offload::kNone;
  std::string folder;      // kDisk: where the file is
  bool streams = false;    // matrices lie in a GPU's host memory, and come for each lease. Of those
                           // that learn only with an offload: else the optimizer's step is there
  bool cast_once = false;  // States' `held`: also where nothing is sharded and nothing offloaded
  int expert_ranks = 1;    // neighbouring ranks of the world that share each layer's experts
  bool apart = false;      // sp groups have states of their own; stages 1 to 3 over kSp
  int64_t bucket_bytes = int64_t{32} << 20;
};

class Zero {
 public:
  // INVALID_ARGUMENT where the stage is none, ranks_per_machine or expert_ranks does not divide the
  // world, experts are shared and states offloaded, or groups are apart and states or experts
  // shared beyond them;
  // kDisk: the folder's failures. Every rank calls it.
  static absl::StatusOr<std::shared_ptr<Zero>> Create(ZeroOptions options, comm::Mesh& mesh);

  const ZeroOptions& options() const { return options_; }
  const std::shared_ptr<comm::Communicator>& shards() const {
    return shards_;
  }  // who part the states; alone in stage 0
  const std::shared_ptr<comm::Communicator>& replicas() const {
    return replicas_;
  }  // who hold the same part
  // Who share the layers' experts, and who have the same ones.
  const std::shared_ptr<comm::Communicator>& experts() const { return experts_; }
  const std::shared_ptr<comm::Communicator>& expert_peers() const { return expert_peers_; }
  const std::shared_ptr<StateMemory>& memory() const { return memory_; }  // null: beside the shards
  bool lockstep() const { return lockstep_; }

  // Stage 3: parts the weight, whose whole is let go, if it is not sharded yet; one that lies
  // packed stays so, and is handed over once. One that streams goes to the host. Else nothing. No
  // communication.
  void Part(base::Parameter& parameter);
  // Whether the weight comes from the host's memory for each lease.
  bool Streams(const base::Parameter& parameter) const;
  // On which weights come to `device`.
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

#endif  // MOONRING_TRAINER_ZERO_H_
