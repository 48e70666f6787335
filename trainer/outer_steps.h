#ifndef MOONRING_TRAINER_OUTER_STEPS_H_
#define MOONRING_TRAINER_OUTER_STEPS_H_

// Local training with outer steps: the G sequence-parallel (sp) groups of a run train independently
// for a round of several steps, and are then synchronized. x_t are the weights with which all
// groups begin round t (the synchronization point); x_t^(g) are the weights of group g at the end
// of round t:
//
//   d_t = 1/G sum_g (x_t - x_t^(g))        one all-reduce over the groups
//   m   <- b m + d_t                       b: the outer momentum
//   m   <- min(max(m, -c), c)              elementwise, if there is a clip value c (as in CO2)
//   x_(t+1) = x_t - a m                    a: the outer learning rate
//           = x_t - a (d_t + b m)          with Nesterov momentum
//
// All groups continue from x_(t+1). a = 1 and b = 0 is averaging: local SGD (arXiv 1805.09767).
// With b > 0 it is SlowMo (arXiv 1910.00643, algorithm 1; its m is this m divided by the inner
// learning rate, if that is constant); with AdamW as the inner optimizer and Nesterov momentum it
// is DiLoCo (arXiv 2311.08105, algorithm 1). Inner optimizer states are not synchronized.
//
// With `overlap` (after CO2, arXiv 2401.16265), d_t is communicated during round t + 1 and applied
// at its end:
//
//   m <- b m + d_(t-1)     x_(t+1) = x_t - a m     d_(-1) = 0, so x_1 = x_0
//
// x and m are sharded like the optimizer's states, have the gradients' dtype, and are bit for bit
// equal on all groups. The all-reduce has its own communicator, so that no other call waits for it.
//
// Memory, for n elements in this rank's shards: n for x, n for m if b > 0, and n for the
// differences (permanently with overlap, otherwise only at the end of a round). While
// ShowCommon(true) has replaced the group's weights by x, n more for the group's weights.
// Communication per round: 2 (G - 1) / G times n elements. Errors are those of the communicator.

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/sharding/states.h"

namespace moonring::trainer {

struct OuterOptions {
  double learning_rate = 1.0;
  double momentum = 0.0;
  bool nesterov = false;
  double clip = 0.0;  // elementwise limit of m; 0: none
  bool overlap = false;
};

class OuterSteps {
 public:
  // Begins round 0 with the present weights as x_0, the first synchronization point; they must be
  // equal on all groups. INVALID_ARGUMENT if an option is out of range. A collective of all ranks.
  // The states must belong to a Zero with the option `apart` (each sp group has independent states;
  // zero.h).
  static absl::StatusOr<std::unique_ptr<OuterSteps>> Create(OuterOptions options, comm::Mesh& mesh,
                                                            std::shared_ptr<States> states);

  // EndRound, Finish and ShowCommon write weights, so States::Publish() must follow.
  //
  // EndRound: ends a round. A collective of all ranks.
  absl::Status EndRound();
  // Must be called after the last round: applies the differences that are still being communicated,
  // and returns whether there were any. A collective of all ranks.
  absl::StatusOr<bool> Finish();
  // With `common`, replaces this group's weights by the synchronization point x (to evaluate or
  // save it); otherwise restores the group's weights. Returns whether any weight was written. A
  // round cannot end before the group's weights are restored.
  bool ShowCommon(bool common);

  // The state of each shard, by name: outer/NAME (x), outer_momentum/NAME, outer_difference/NAME
  // (the differences in transit, which are waited for). Live tensors, equal on all groups.
  absl::StatusOr<StateTensors> Save();
  // Restores the states saved by each of P ranks of a group, in rank order; P need not be the
  // present size. If `saved` is empty, training begins with the present weights as the
  // synchronization point x. INVALID_ARGUMENT if names or shapes differ.
  absl::Status Load(const std::vector<StateTensors>& saved);

  int64_t state_bytes() const;
  comm::Communicator::Counters counters() const { return groups_->counters(); }

 private:
  struct Slot {
    std::shared_ptr<base::Parameter> shard;
    at::Tensor common, momentum;
    at::Tensor difference = {};  // in transit: a view of flats_
    at::Tensor own = {};         // the group's weight, while ShowCommon has replaced it by x
  };
  OuterSteps(OuterOptions options, std::shared_ptr<comm::Communicator> groups,
             std::shared_ptr<States> states)
      : options_(options), groups_(std::move(groups)), states_(std::move(states)) {}

  void Begin();
  // Allocates the difference tensors, if needed: one flat tensor per device and dtype.
  void MakeFlats();
  void DropFlats();
  // Send starts the all-reduce of flats_. Arrive waits for it and divides flats_ by the number of
  // groups.
  absl::Status Send();
  absl::Status Arrive();
  // Updates a slot's momentum m and synchronization point x. `difference` is d_t, the mean over the
  // groups of x minus the group's weights, and is overwritten.
  void Act(Slot& slot, at::Tensor difference) const;

  OuterOptions options_;
  std::shared_ptr<comm::Communicator> groups_;
  std::shared_ptr<States> states_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> flats_;
  std::vector<comm::Communicator::Transfer> travelling_;
  bool arrived_ = false;  // flats_ are means that have not been applied yet
  bool shown_ = false;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OUTER_STEPS_H_
