#ifndef MOONRING_TRAINER_RULE_OPTIMIZER_H_
#define MOONRING_TRAINER_RULE_OPTIMIZER_H_

// An optimizer whose rule is a function of its owner's: how a weight changes by its gradient, and
// what is kept for it. This class knows everything else: shards, dtypes, saving and loading.
//
//   a parameter       the rule sees                          its state is kept
//   by shards         this rank's part, [part]               in parts, as the weight is; a scalar
//                                                            on every rank
//   whole             the weight, in its shape, on one       whole, on that rank (owners.h)
//                     rank of the group that shards it
//
// The rule works in the gradient's dtype (fp32; fp64 for an fp64 weight): a bf16 weight is updated
// in fp32 and rounded once, at the end. A parameter without a gradient is left untouched, weight
// and state; an empty part too. Weights that are not finite after a step end it: ABORTED, naming
// them, the same on all ranks.
//
// Saved: KEY/NAME for each tensor of a state, and step/NAME (a scalar: steps made). A part is
// one-dimensional; a whole tensor has a leading dim of 1, by which it is told from a part.
//
// Cost of whole parameters over P ranks: weight and gradient are sent to the owner, the weight is
// sent back: 3 n numbers in all for n, against a single worker's work; in rounds of bucket_bytes,
// so that the owners work at once and hold one round. With P = 1 (zero_stage 0) nothing is sent,
// and every rank does all of the work.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "trainer/optimizer.h"
#include "trainer/owners.h"

namespace moonring::trainer {

struct UpdateRule {
  using State = std::map<std::string, at::Tensor>;

  // What is kept for parameter `index` of the list, before its first step.
  std::function<State(size_t index, const at::Tensor& weight)> state;
  // Writes `weight` in place, and gives back the state: its tensors written in place or other ones
  // of the same names, shapes and dtypes. `step` counts this parameter's, from 1.
  std::function<State(size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                      State state, double lr, int64_t step)>
      update;
  // Optimizer::Average of one parameter that is stepped by shards: writes weight and state in
  // place, and gives whether it did. Null: there is nothing to turn.
  std::function<bool(size_t index, const at::Tensor& weight, State& state, bool average)> turn =
      nullptr;
};

struct RuleOptimizerOptions {
  std::vector<bool> whole;  // of each parameter; empty: by shards
  std::shared_ptr<comm::Communicator> shards = comm::Communicator::Alone();  // who part the weights
  double loraplus_ratio = 1.0;
  int64_t bucket_bytes = int64_t{32} << 20;
};

class RuleOptimizer : public Optimizer {
 public:
  // INVALID_ARGUMENT where parameters are parts of weights and `shards` are not those who part
  // them, and where a weight is not contiguous.
  static absl::StatusOr<std::unique_ptr<RuleOptimizer>> Create(UpdateRule rule,
                                                               RuleOptimizerOptions options,
                                                               base::Parameters parameters);

  // Collective over the group that parts. Throws where a state that the rule gives does not fit.
  void Step(double lr) override;
  std::map<std::string, at::Tensor> SaveState() const override;
  // Calls the rule's `state`, whose names and shapes must be those that were saved.
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;
  int64_t state_bytes() const override;
  bool Average(bool average) override;

  // The bytes of all states from their first step on, wherever they will lie: of shapes alone, also
  // of parameters on the "meta" device, whose numbers are nowhere.
  int64_t NewStateBytes() const;

 private:
  struct Slot {
    std::shared_ptr<base::Parameter> parameter;
    double rate;
    bool whole;
    int owner;  // of a whole one
    UpdateRule::State state = {};
    at::Tensor steps = {};  // undefined until its first; an fp32 scalar on the host
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

#endif  // MOONRING_TRAINER_RULE_OPTIMIZER_H_
