#ifndef MOONRING_TRAINER_OPTIMIZER_RULE_OPTIMIZER_H_
#define MOONRING_TRAINER_OPTIMIZER_RULE_OPTIMIZER_H_

// An optimizer with a user-defined update rule: the rule computes a weight's update from its
// gradient and state. This class handles sharding, dtypes, saving and loading.
//
//   a parameter       the rule receives                      its state is stored
//   by shards         this rank's shard, [shard]             sharded like the weight; a scalar on
//                                                            every rank
//   whole             the weight in its shape, on one        whole, on that rank (owners.h)
//                     rank of the group that shards it
//
// The rule computes in the gradient's dtype (fp32; fp64 for an fp64 weight): a bf16 weight is
// updated in fp32 and rounded once, at the end. The weight and state of a parameter without a
// gradient, and of an empty shard, are unchanged. Non-finite weights after a step are an error:
// ABORTED, with their names, the same on all ranks.
//
// Names of saved tensors: KEY/NAME for the state KEY of the parameter NAME, and step/NAME (a
// scalar, the parameter's number of steps). The state of a shard is saved as a one-dimensional
// tensor; that of a whole parameter has an additional leading dim of 1, by which it is recognized.
//
// Cost of a whole parameter of n elements: weight and gradient are sent to the rank that processes
// it (its owner) and the weight is sent back, 3 n elements in total, but only one rank does the
// work. Parameters are processed in rounds of bucket_bytes, so that owners work in parallel and
// memory is limited to one round. If nothing is sharded (zero_stage 0) nothing is sent, and every
// rank does all the work.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/sharding/owners.h"

namespace moonring::trainer {

struct UpdateRule {
  using State = std::map<std::string, at::Tensor>;

  // Returns the initial state of parameter `index` of the list.
  std::function<State(size_t index, const at::Tensor& weight)> state;
  // Writes `weight` in place and returns the state: its tensors may be modified in place or
  // replaced by others with the same names, shapes and dtypes. `step` is the parameter's own step
  // count, from 1.
  std::function<State(size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                      State state, double lr, int64_t step)>
      update;
  // Implements Optimizer::Average for one parameter that is updated by shards: writes weight and
  // state in place and returns whether it did. Null if the optimizer does not average weights.
  std::function<bool(size_t index, const at::Tensor& weight, State& state, bool average)> turn =
      nullptr;
};

struct RuleOptimizerOptions {
  std::vector<bool> whole;  // one per parameter; empty: all by shards
  // the group that shards the weights
  std::shared_ptr<comm::Communicator> shards = comm::Communicator::Alone();
  double loraplus_ratio = 1.0;
  int64_t bucket_bytes = int64_t{32} << 20;
};

class RuleOptimizer : public Optimizer {
 public:
  // INVALID_ARGUMENT if parameters are shards and `shards` is not the group that sharded them, or
  // if a weight is not contiguous.
  static absl::StatusOr<std::unique_ptr<RuleOptimizer>> Create(UpdateRule rule,
                                                               RuleOptimizerOptions options,
                                                               base::Parameters parameters);

  // A collective of the `shards` group. Throws if a state returned by the rule does not match.
  void Step(double lr) override;
  std::map<std::string, at::Tensor> SaveState() const override;
  // Creates each state with UpdateRule::state; the saved names and shapes must be those of that
  // state.
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;
  int64_t state_bytes() const override;
  base::Parameters parameters() const override;
  bool Average(bool average) override;

  // Bytes of all states after the first step, over all ranks. Needs only shapes, so it also works
  // for parameters on the "meta" device.
  int64_t NewStateBytes() const;

 private:
  struct Slot {
    std::shared_ptr<base::Parameter> parameter;
    double rate;
    bool whole;
    int owner;  // the rank that processes a whole parameter
    UpdateRule::State state = {};
    at::Tensor steps = {};  // undefined before the first step; an fp32 scalar on the host
  };
  RuleOptimizer(UpdateRule rule, RuleOptimizerOptions options, std::vector<Slot> slots)
      : rule_(std::move(rule)), options_(std::move(options)), slots_(std::move(slots)) {}

  bool IsMine(const Slot& slot) const;
  UpdateRule::State NewState(size_t index, const at::Tensor& weight) const;
  void Update(size_t index, const at::Tensor& weight, const at::Tensor& gradient, double lr);
  absl::Status StepWhole(const std::vector<size_t>& round, double lr);
  absl::Status StepWholes(const std::vector<size_t>& indices, double lr);
  absl::Status RefuseNonFinite(const std::vector<size_t>& stepped) const;
  absl::StatusOr<UpdateRule::State> Loaded(size_t index, const UpdateRule::State& saved) const;

  UpdateRule rule_;
  RuleOptimizerOptions options_;
  std::vector<Slot> slots_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_RULE_OPTIMIZER_H_
