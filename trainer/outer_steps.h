#ifndef MOONRING_TRAINER_OUTER_STEPS_H_
#define MOONRING_TRAINER_OUTER_STEPS_H_

// Fewer syncs: the G sp groups of a run make steps of their own, and come together at the end of a
// round of some of them. x_t is the common point that round t begins at on all of them, x_t^(g)
// where group g is at its end:
//
//   d_t = 1/G sum_g (x_t - x_t^(g))        one all-reduce over the groups
//   m   <- b m + d_t                       b: the outer momentum
//   m   <- min(max(m, -c), c)              number by number, where there is a c: after CO2
//   x_(t+1) = x_t - a m                    a: the outer learning rate
//           = x_t - a (d_t + b m)          with Nesterov's momentum
//
// and every group goes on from x_(t+1). a = 1 and b = 0 is averaging: local SGD (arXiv 1805.09767).
// With b it is SlowMo (arXiv 1910.00643, algorithm 1), whose m is divided by the inner rate where
// that is constant; with AdamW inside and Nesterov's momentum DiLoCo (arXiv 2311.08105, algorithm
// 1). What the inner optimizer keeps stays each group's own.
//
// With `overlap` (after CO2, arXiv 2401.16265) d_t travels while round t + 1 runs, and acts at its
// end:
//
//   m <- b m + d_(t-1)     x_(t+1) = x_t - a m     d_(-1) = 0, so x_1 = x_0
//
// x and m are of this rank's shards, in the dtype of gradients, and the same bits on all groups.
// The all-reduce has a group of its own, which no other call waits behind.
//
// Memory: n numbers for x, n for m where b is above 0, n with overlap for what travels, n being
// those of the shards; else what travels is there at a round's end alone. Besides n for the group's
// own weights while the common point is in their place. Bytes a round: 2 (G - 1) / G of n numbers.
// Fails with what the group's calls fail with.

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "trainer/saved_states.h"
#include "trainer/states.h"

namespace moonring::trainer {

struct OuterOptions {
  double learning_rate = 1.0;
  double momentum = 0.0;
  bool nesterov = false;
  double clip = 0.0;  // of each number of m; 0: none
  bool overlap = false;
};

class OuterSteps {
 public:
  // The present weights are the common point: they are the same on all groups. INVALID_ARGUMENT
  // where an option is out of its bounds. Every rank calls it. The states are of a Zero whose
  // groups are apart (zero.h).
  static absl::StatusOr<std::unique_ptr<OuterSteps>> Create(OuterOptions options, comm::Mesh& mesh,
                                                            std::shared_ptr<States> states);

  // All three write weights, so States::Publish() follows.
  //
  // Ends a round. A call of all ranks.
  absl::Status EndRound();
  // After the last round: what still travels acts. Gives whether anything did. A call of all ranks.
  absl::StatusOr<bool> Finish();
  // Puts the common point into the weights' place, or this group's own back. Gives whether any was
  // written. A round does not end while the common point is there.
  bool ShowCommon(bool common);

  // Of each shard, by name: outer/NAME (x), outer_momentum/NAME, outer_difference/NAME (what is
  // under way, waited for). The live tensors; the same on all groups.
  absl::StatusOr<StateTensors> Save();
  // Goes on from what each of P ranks of a group saved, in their order, however many. Where nothing
  // was (`saved` is empty) the present weights are the common point. INVALID_ARGUMENT where names
  // or shapes are others.
  absl::Status Load(const std::vector<StateTensors>& saved);

  int64_t state_bytes() const;
  comm::Communicator::Counters counters() const { return groups_->counters(); }

 private:
  struct Slot {
    std::shared_ptr<base::Parameter> shard;
    at::Tensor common, momentum;
    at::Tensor difference = {};  // of what travels: a view of flats_
    at::Tensor own = {};         // the group's own weight, while the common point is in its place
  };
  OuterSteps(OuterOptions options, std::shared_ptr<comm::Communicator> groups,
             std::shared_ptr<States> states)
      : options_(options), groups_(std::move(groups)), states_(std::move(states)) {}

  void Begin();
  // Memory for all differences, where there is none: one tensor a device and dtype.
  void MakeFlats();
  void DropFlats();
  // Starts to sum what is in them, and waits for it: means then.
  absl::Status Send();
  absl::Status Arrive();
  // The outer rule of a slot, on a mean difference, which it may write.
  void Act(Slot& slot, at::Tensor difference) const;

  OuterOptions options_;
  std::shared_ptr<comm::Communicator> groups_;
  std::shared_ptr<States> states_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> flats_;
  std::vector<comm::Communicator::Transfer> travelling_;
  bool arrived_ = false;  // flats_ are means that have not acted
  bool shown_ = false;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OUTER_STEPS_H_
