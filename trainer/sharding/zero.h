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

#include <array>
#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "base/memory/side_stream.h"
#include "base/text/fields.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "trainer/sharding/state_memory.h"

namespace moonring::trainer {

enum class ZeroGroup { kWorld, kSp, kNode };
constexpr auto WordsOf(ZeroGroup) {
  return std::to_array<base::Word<ZeroGroup>>(
      {{"world", ZeroGroup::kWorld}, {"sp", ZeroGroup::kSp}, {"node", ZeroGroup::kNode}});
}
enum class Offload { kNone, kHost, kDisk };
constexpr auto WordsOf(Offload) {
  return std::to_array<base::Word<Offload>>(
      {{"none", Offload::kNone}, {"cpu", Offload::kHost}, {"disk", Offload::kDisk}});
}

struct ZeroOptions {
  int stage = 0;
  ZeroGroup group = ZeroGroup::kWorld;
  int ranks_per_machine = 0;  // 0: all ranks are on one machine
  Offload offload = Offload::kNone;
  std::string folder;
  bool streams = false;
  bool cast_once = false;
  int expert_ranks = 1;
  bool apart = false;
  int64_t bucket_bytes = int64_t{32} << 20;

  static constexpr std::tuple kFields = {
      base::Field{"stage", &ZeroOptions::stage,
                  "what is sharded over ranks; 0: nothing; 1: optimizer state; 2: also gradients; "
                  "3: also weights"},
      base::Field{"group", &ZeroOptions::group,
                  "the group of ranks over which states are sharded; each group has its own copy "
                  "of the states"},
      base::Field{"offload", &ZeroOptions::offload,
                  "where the optimizer's state is stored and its step is computed; \"none\": where "
                  "the weights are"},
      base::Field{"ranks_per_machine", &ZeroOptions::ranks_per_machine,
                  "number of ranks on one machine (consecutive rank numbers), which form the group "
                  "\"node\"; 0: all ranks"},
      base::Field{"folder", &ZeroOptions::folder,
                  "for offload = \"disk\": the folder in which the file of the state is created, "
                  "without a name"},
      base::Field{"streams", &ZeroOptions::streams,
                  "whether the matrices of a model on a GPU are stored on the host and copied to "
                  "the GPU for each use; trainable ones only if the optimizer is offloaded, which "
                  "then updates them there; only with stage 0 or 3"},
      base::Field{"cast_once", &ZeroOptions::cast_once,
                  "whether the option `held` of Zero:states, which casts weights once per step and "
                  "keeps fp32 master weights, has an effect even if nothing is sharded or "
                  "offloaded"},
      base::Field{"expert_ranks", &ZeroOptions::expert_ranks,
                  "number of ranks (with consecutive numbers) that divide the experts of each "
                  "layer among them; a rank that loads a model with this option reads only its "
                  "own experts"},
      base::Field{"apart", &ZeroOptions::apart,
                  "whether each sp group has its own states, which receive no gradients from other "
                  "groups (for local steps); stages 1 to 3 then shard over the sp group"},
      base::Field{"bucket_bytes", &ZeroOptions::bucket_bytes,
                  "bytes of gradients in one reduce-scatter"},
  };
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
