// Lua bindings for GRPO and related losses on rewards, and for the threshold that selects a step's
// tokens with the highest entropy.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/objective_sums.h"
#include "lua/bindings/script_call.h"
#include "objectives/high_entropy.h"
#include "objectives/policy_gradient.h"

namespace moonring::lua {
namespace {

std::shared_ptr<objectives::PolicyGradient> MakePolicyGradient(Options options) {
  objectives::PolicyGradientOptions wanted;
  wanted.loss_type = options.Get<std::string>("loss_type", wanted.loss_type);
  wanted.beta = options.Get<double>("beta", wanted.beta);
  wanted.epsilon = options.Get<double>("epsilon", wanted.epsilon);
  wanted.epsilon_high = options.Find<double>("epsilon_high");
  wanted.delta = options.Find<double>("delta");
  wanted.importance_sampling_level =
      options.Get<std::string>("importance_sampling_level", wanted.importance_sampling_level);
  wanted.max_completion_length = options.Get<int64_t>("max_completion_length", 0);
  options.Finish();
  return base::ValueOrThrow(objectives::PolicyGradient::Create(std::move(wanted)));
}

int64_t CountTargets(objectives::PolicyGradient& policy_gradient, Options batch) {
  const at::Tensor targets = NeededTensor(batch, "targets");
  const auto counted = batch.Get<std::vector<bool>>("counted", {});
  batch.Finish();
  return policy_gradient.Count(targets, counted);
}

objectives::Sums Loss(lua_State* L, objectives::PolicyGradient& policy_gradient,
                      comm::Layout& layout, comm::Mesh& mesh, Options options) {
  objectives::PolicyBatch batch;
  batch.log_prob_T = NeededTensor(options, "log_probs");
  batch.old_T = TensorOption(options, "old");
  batch.reference_T = TensorOption(options, "reference");
  batch.targets_T = NeededTensor(options, "targets");
  batch.advantages = NeededTensor(options, "advantages");
  batch.counted = options.Get<std::vector<bool>>("counted", {});
  batch.entropy_T = TensorOption(options, "entropy");
  batch.high_entropy_T = TensorOption(options, "high_entropy");
  batch.sampled_T = TensorOption(options, "sampled");
  options.Finish();
  MatchScriptCall(L, mesh.sp(), absl::StrCat("PolicyGradient:loss of ", layout.lengths().size(),
                                             " documents"));
  return policy_gradient.Loss(batch, layout, mesh.sp_group());
}

// Pushes the properties of each loss, so that a configuration can be checked before its model is
// loaded.
Pushed PushPolicyLosses(lua_State* L) {
  lua_newtable(L);
  for (const objectives::PolicyLoss& loss : objectives::PolicyLosses()) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, loss.name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, loss.of_sequences);
    lua_setfield(L, -2, "of_sequences");
    lua_rawseti(L, -2, static_cast<int>(lua_objlen(L, -2)) + 1);
  }
  return {1};
}

}  // namespace

void AddPolicyGradient(lua_State* L) {
  Class<objectives::PolicyGradient>::Register(
      L, "PolicyGradient",
      {
          {"needs_reference", Bind<[](objectives::PolicyGradient& policy_gradient) {
             return policy_gradient.needs_reference();
           }>},
          {"count", Bind<&CountTargets>},
          {"loss", Bind<&Loss>},
      });
  AddToModule(
      L, "moonring.objectives",
      {
          {"policy_gradient", Bind<&MakePolicyGradient>},
          {"policy_losses", Bind<&PushPolicyLosses>},
          {"entropy_threshold", Bind<[](lua_State* state, at::Tensor entropies_N, double share,
                                        comm::Mesh& mesh) {
             MatchScriptCall(state, mesh.world(), "objectives.entropy_threshold");
             return objectives::EntropyThreshold(entropies_N, share, mesh.world());
           }>},
      });
}

}  // namespace moonring::lua
