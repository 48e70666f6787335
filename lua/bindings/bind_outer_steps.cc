// Lua bindings for local SGD, in which sp groups train independently and average their weights from
// time to time (trainer/outer_steps.h).

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/status/torch_status.h"
#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/outer_steps.h"
#include "trainer/sharding/states.h"

namespace moonring::lua {
namespace {

using trainer::OuterSteps;

std::shared_ptr<OuterSteps> MakeOuterSteps(Options options) {
  const auto mesh = options.Require<std::shared_ptr<comm::Mesh>>("mesh");
  auto states = options.Require<std::shared_ptr<trainer::States>>("states");
  trainer::OuterOptions outer;
  outer.learning_rate = options.Get<double>("learning_rate", outer.learning_rate);
  outer.momentum = options.Get<double>("momentum", outer.momentum);
  outer.nesterov = options.Get<bool>("nesterov", outer.nesterov);
  outer.clip = options.Get<double>("clip", outer.clip);
  outer.overlap = options.Get<bool>("overlap", outer.overlap);
  options.Finish();
  return base::ValueOrThrow(OuterSteps::Create(outer, *mesh, std::move(states)));
}

}  // namespace

void AddOuterSteps(lua_State* L) {
  Class<OuterSteps>::Register(
      L, "OuterSteps",
      {
          {"end_round", Bind<[](OuterSteps& steps) { return steps.EndRound(); }>},
          {"finish", Bind<[](OuterSteps& steps) { return base::ValueOrThrow(steps.Finish()); }>},
          {"show_common",
           Bind<[](OuterSteps& steps, bool common) { return steps.ShowCommon(common); }>},
          {"save", Bind<[](OuterSteps& steps) { return base::ValueOrThrow(steps.Save()); }>},
          {"load", Bind<[](OuterSteps& steps, std::vector<trainer::StateTensors> saved) {
             return steps.Load(saved);
           }>},
          {"state_bytes", Bind<[](OuterSteps& steps) { return steps.state_bytes(); }>},
          {"traffic", Bind<[](OuterSteps& steps) {
             const comm::Communicator::Counters counters = steps.counters();
             return std::make_tuple(counters.steps, counters.bytes_sent);
           }>},
      });
  AddToModule(L, "moonring.trainer", {{"outer_steps", Bind<&MakeOuterSteps>}});
}

}  // namespace moonring::lua
