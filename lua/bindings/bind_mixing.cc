// Lua bindings for the costs of layers other than softmax attention, computed from a layout.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/layout.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/set_field.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/mixing_options.h"
#include "mixers/over_ranks/mixing_cost.h"

namespace moonring::lua {
namespace {

struct ItemBytes {
  int64_t element = 4, state = 4;
};

ItemBytes BytesOf(Options& options) {
  const std::string dtype = options.Get<std::string>("dtype", "fp32");
  TORCH_CHECK_VALUE(dtype == "fp32" || dtype == "bf16" || dtype == "fp16" || dtype == "fp64",
                    "dtype: expected fp32, bf16, fp16 or fp64, got '", dtype, "'");
  return {dtype == "fp64" ? 8 : dtype == "fp32" ? 4 : 2, dtype == "fp64" ? 8 : 4};
}

void PushRowTraffic(lua_State* L, const char* name, const comm::RowTraffic& traffic) {
  lua_createtable(L, 0, 2);
  SetField(L, "steps", static_cast<double>(traffic.steps));
  SetField(L, "bytes", static_cast<double>(traffic.bytes));
  lua_setfield(L, -2, name);
}

// Pushes a list with the traffic of each rank; `of(rank)` returns one rank's.
template <typename Of>
void PushRanks(lua_State* L, int ranks, const Of& of) {
  lua_createtable(L, ranks, 2);
  for (int rank = 0; rank < ranks; ++rank) {
    const mixers::MixingTraffic traffic = of(rank);
    lua_createtable(L, 0, 2);
    PushRowTraffic(L, "forward", traffic.forward);
    PushRowTraffic(L, "backward", traffic.backward);
    lua_rawseti(L, -2, rank + 1);
  }
}

// Computes the cost of a gated delta rule layer for each rank, without running it.
Pushed DeltaCost(lua_State* L, Options options) {
  const auto layout = options.Require<std::shared_ptr<const comm::Layout>>("layout");
  mixers::MixingStrategy mode = MixingStrategyFrom(options, "mode");
  mixers::MixingSizes sizes{.key_heads = options.Require<int64_t>("key_heads"),
                            .value_heads = options.Require<int64_t>("value_heads"),
                            .key_dim = options.Require<int64_t>("key_dim"),
                            .value_dim = options.Require<int64_t>("value_dim"),
                            .taps = options.Get<int64_t>("taps", 0),
                            .by_channel = options.Get<bool>("by_channel", false)};
  const ItemBytes bytes = BytesOf(options);
  const bool on_gpu = options.Get<std::string>("device", "cpu") == "cuda";
  options.Finish();
  sizes.element_bytes = bytes.element;
  sizes.state_bytes = bytes.state;
  TORCH_CHECK_VALUE(sizes.key_heads > 0 && sizes.value_heads > 0 &&
                        sizes.value_heads % sizes.key_heads == 0 && sizes.key_dim > 0 &&
                        sizes.value_dim > 0 && sizes.taps >= 0,
                    "key_heads ", sizes.key_heads, ", value_heads ", sizes.value_heads,
                    ", key_dim ", sizes.key_dim, ", value_dim ", sizes.value_dim, ", taps ",
                    sizes.taps, ": expected sizes, and value heads in a multiple of key heads");
  const mixers::MachineModel machine = on_gpu ? mixers::kGpuMachine : mixers::MachineModel();
  if (mode == mixers::MixingStrategy::kAuto) mode = mixers::ChooseMixing(*layout, sizes, machine);
  PushRanks(L, layout->ranks(),
            [&](int rank) { return mixers::TrafficOfDelta(mode, *layout, sizes, rank); });
  SetField(L, "seconds", mixers::EstimateSeconds(mode, *layout, sizes, machine));
  Value<std::string>::Push(L, mixers::MixingStrategyName(mode));
  lua_setfield(L, -2, "mode");
  return {1};
}

// Computes the cost of a short convolution. In every mode neighbouring ranks exchange the rows at
// their borders.
Pushed ConvolutionCost(lua_State* L, Options options) {
  const auto layout = options.Require<std::shared_ptr<const comm::Layout>>("layout");
  const auto channels = options.Require<int64_t>("channels"),
             taps = options.Require<int64_t>("taps");
  const ItemBytes bytes = BytesOf(options);
  options.Finish();
  TORCH_CHECK_VALUE(channels > 0 && taps > 0, "channels ", channels, ", taps ", taps,
                    ": expected more than 0");
  PushRanks(L, layout->ranks(), [&](int rank) {
    return mixers::TrafficOfConvolution(*layout, channels, taps, bytes.element, rank);
  });
  return {1};
}

std::vector<std::string> Names() {
  std::vector<std::string> names = {mixers::MixingStrategyName(mixers::MixingStrategy::kAuto)};
  for (const mixers::MixingStrategy strategy : mixers::kMixingStrategies)
    names.emplace_back(mixers::MixingStrategyName(strategy));
  return names;
}

}  // namespace

void OpenMixing(lua_State* L) {
  PushModule(L, "moonring.native.mixing",
             {{"convolution_cost", Bind<&ConvolutionCost>},
              {"cost", Bind<&DeltaCost>},
              {"names", Bind<&Names>}});
}

}  // namespace moonring::lua
