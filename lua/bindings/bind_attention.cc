// Lua bindings for attention strategies and for plans of micro-batches.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/attention.h"
#include "attention/hooks/document_keys.h"
#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/device_tile_runner.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/kernel_timing.h"
#include "attention/kernels/mask.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/hybrid_attention.h"
#include "attention/strategy/micro_batch_share.h"
#include "attention/strategy/shifted_attention.h"
#include "attention/strategy/strategies.h"
#include "base/status/torch_status.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/mixing_options.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::lua {
namespace {

attention::AttentionShape ShapeFrom(Options& options) {
  attention::AttentionShape shape{.heads = options.Get<int64_t>("heads", 0),
                                  .kv_heads = options.Get<int64_t>("kv_heads", 0),
                                  .head_dim = options.Get<int64_t>("head_dim", 0),
                                  .value_dim = options.Get<int64_t>("value_dim", 0)};
  const std::string dtype = options.Get<std::string>("dtype", "fp32");
  TORCH_CHECK_VALUE(dtype == "fp32" || dtype == "bf16" || dtype == "fp16" || dtype == "fp64",
                    "dtype: expected fp32, bf16, fp16 or fp64, got '", dtype, "'");
  shape.element_bytes = dtype == "fp64" ? 8 : dtype == "fp32" ? 4 : 2;
  shape.accumulate_bytes = dtype == "fp64" ? 8 : 4;
  TORCH_CHECK_VALUE(
      shape.heads >= 0 && shape.kv_heads >= 0 && shape.head_dim >= 0 && shape.value_dim >= 0,
      "heads ", shape.heads, ", kv_heads ", shape.kv_heads, ", head_dim ", shape.head_dim,
      ", value_dim ", shape.value_dim, ": expected none below 0");
  TORCH_CHECK_VALUE(shape.heads == 0 || (shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0),
                    "kv_heads: expected a divisor of heads ", shape.heads, ", got ",
                    shape.kv_heads);
  return shape;
}

attention::StrategyOptions StrategyFrom(Options& options) {
  const std::string placement = options.Get<std::string>("placement", "head_first");
  TORCH_CHECK_VALUE(placement == "head_first" || placement == "context_first",
                    "placement: expected head_first or context_first, got '", placement, "'");
  return {.name = options.Get<std::string>("strategy", "zigzag-ring"),
          .ulysses_degree = options.Get<int>("ulysses_degree", 0),
          .ring_degree = options.Get<int>("ring_degree", 0),
          .placement = placement == "head_first" ? comm::Placement::kHeadFirst
                                                 : comm::Placement::kContextFirst,
          .double_ring_window = options.Get<int>("double_ring_window", 0),
          .ranks_per_machine = options.Get<int>("ranks_per_machine", 0),
          .shape = ShapeFrom(options)};
}

// Reads the option `kernels` (GPU kernels); nullopt for "auto".
std::optional<attention::KernelChoice> KernelsFrom(Options& options) {
  const auto text = options.Get<std::string>("kernels", "auto");
  if (text == "auto") return std::nullopt;
  return base::ValueOrThrow(attention::ParseKernelChoice(text));
}

// Chooses the GPU kernels: those in `written` if the user chose, else the fastest that rank 0
// measures. use.often is the document length that occurs most often, because longer documents are
// truncated to it. Collective over the mesh.
attention::KernelChoice ChooseKernels(comm::Mesh& mesh,
                                      const std::optional<attention::KernelChoice>& written,
                                      const attention::KernelShape& shape,
                                      const attention::KernelUse& use) {
  if (written.has_value()) return *written;
  attention::KernelChoice choice;
  const std::vector<int64_t> lengths = attention::LengthsToTime(use.often);
  if (lengths.empty() || !attention::CudnnTakes(shape)) return choice;
  if (mesh.world().rank() == 0) {
    const at::Device device(at::kCUDA);
    choice = attention::ChooseKernels(
        attention::TimeKernels(shape, lengths, device, attention::DeviceStopwatch(device)), use);
  }
  base::ThrowIfError(attention::TakeFirstRanks(mesh.world(), choice));
  return choice;
}

std::shared_ptr<MeshAttention> CreateMeshAttention(Options options) {
  auto mesh = options.Require<std::shared_ptr<comm::Mesh>>("mesh");
  attention::AttentionOptions wanted{.strategy = StrategyFrom(options), .group = mesh->sp_group()};
  const attention::AttentionShape& shape = wanted.strategy.shape;
  const bool on_gpu = options.Get<std::string>("device", "cpu") == "cuda";
  const std::optional<attention::KernelChoice> written = KernelsFrom(options);
  const auto longest = options.Get<int64_t>("longest", 0),
             layers = options.Get<int64_t>("layers", 1);
  const mixers::MixingOptions mixing{MixingStrategyFrom(options, "mixing")};
  options.Finish();
  std::optional<std::string> kernels;
  if (on_gpu) wanted.machine = attention::kGpuMachine;
  if (on_gpu && shape.heads > 0 && shape.element_bytes == 2) {
    // Fused kernels need the same head dim for keys and values, so the smaller of the two is
    // padded.
    const int64_t head_dim = std::max(shape.dims().key, shape.dims().value);
    const attention::KernelChoice choice =
        ChooseKernels(*mesh, written, {shape.heads, shape.kv_heads, head_dim}, {layers, longest});
    kernels = attention::ToString(choice);
    wanted.runners = [choice](const at::Device& device) {
      return attention::ChosenTileRunner(device, choice);
    };
  }
  return std::make_shared<MeshAttention>(
      MeshAttention{mesh, base::ValueOrThrow(attention::CreateAttention(std::move(wanted))),
                    std::move(kernels), mixing});
}

void PushTraffic(lua_State* L, const char* name, const attention::Traffic& traffic) {
  lua_createtable(L, 0, 3);
  const auto set = [&](const char* field, int64_t value) {
    lua_pushnumber(L, static_cast<double>(value));
    lua_setfield(L, -2, field);
  };
  set("steps", traffic.steps);
  set("bytes", traffic.bytes);
  set("far_bytes", traffic.far_bytes);
  lua_setfield(L, -2, name);
}

// Pushes how a strategy divides its work over a number of ranks (for usp, its two degrees). Throws
// if it cannot run on them.
Pushed Resolve(lua_State* L, Options options) {
  const int ranks = options.Require<int>("ranks");
  const attention::StrategyOptions wanted = StrategyFrom(options);
  KernelsFrom(options);
  options.Finish();
  TORCH_CHECK_VALUE(ranks >= 1, "ranks: expected at least 1, got ", ranks);
  lua_createtable(L, 0, 6);
  const auto set = [L](const char* field, const auto& value) {
    Value<std::decay_t<decltype(value)>>::Push(L, value);
    lua_setfield(L, -2, field);
  };
  set("name", wanted.name);
  if (wanted.name == "auto") return {1};
  const attention::Strategy strategy =
      base::ValueOrThrow(attention::ResolveStrategy(wanted, ranks));
  set("name", strategy.name);
  set("words", attention::DescribeStrategy(strategy));
  set("contexts", strategy.division.contexts);
  set("head_ranks", strategy.division.heads);
  set("ownership", std::string(comm::OwnershipName(strategy.division.ownership)));
  set("keys", std::string(strategy.transport->name()));
  set("window", strategy.transport->ranks_per_window(strategy.division.contexts));
  return {1};
}

// Computes how a strategy divides documents over ranks; no mesh is needed.
std::shared_ptr<const comm::Layout> LayOut(Options options) {
  auto lengths = options.Require<std::vector<int64_t>>("lengths");
  const int ranks = options.Require<int>("ranks");
  const attention::StrategyOptions wanted = StrategyFrom(options);
  options.Finish();
  TORCH_CHECK_VALUE(ranks >= 1, "ranks: expected at least 1, got ", ranks);
  const attention::Strategy strategy =
      base::ValueOrThrow(attention::ResolveStrategy(wanted, ranks));
  return base::ValueOrThrow(
      comm::Layout::Create(std::move(lengths), strategy.division, attention::CausalTileArea));
}

Pushed PushCost(lua_State* L, const comm::Layout& layout, const attention::AttentionCost& cost) {
  lua_createtable(L, static_cast<int>(cost.size()), 1);
  for (size_t r = 0; r < cost.size(); ++r) {
    lua_createtable(L, 0, 5);
    lua_pushnumber(L, cost[r].tile_area);
    lua_setfield(L, -2, "tile_area");
    lua_pushnumber(L, static_cast<double>(cost[r].peak_bytes));
    lua_setfield(L, -2, "peak_bytes");
    lua_pushnumber(L, static_cast<double>(layout.local_tokens(static_cast<int>(r))));
    lua_setfield(L, -2, "tokens");
    PushTraffic(L, "forward", cost[r].forward());
    PushTraffic(L, "backward", cost[r].backward());
    lua_rawseti(L, -2, static_cast<int>(r) + 1);
  }
  lua_pushnumber(L, attention::Balance(cost));
  lua_setfield(L, -2, "balance");
  return {1};
}

// Pushes the heads of one call of attention, and those of the rank that computes the most.
void PushSplit(lua_State* L, int64_t heads, int64_t kv_heads, int ranks) {
  std::vector<attention::RankHeads> split;
  if (heads > 0) split = attention::SplitHeads(heads, kv_heads, ranks);
  std::pair<int64_t, int64_t> most;
  for (const attention::RankHeads& rank : split)
    most = std::max(most, std::pair(rank.queries.heads(), rank.kv.heads()));
  lua_createtable(L, 0, 5);
  for (const auto& [field, value] : {std::pair("heads", heads),
                                     {"kv_heads", kv_heads},
                                     {"rank_heads", most.first},
                                     {"rank_kv_heads", most.second}}) {
    lua_pushnumber(L, static_cast<double>(value));
    lua_setfield(L, -2, field);
  }
  lua_pushboolean(L, heads > 0 && attention::SharesKvHeads(split));
  lua_setfield(L, -2, "shares_kv_heads");
}

// Pushes the calls of attention in a layer: one, or with shifted attention one for each half of the
// heads that is not empty.
Pushed SplitHeadsOf(lua_State* L, Options options) {
  const auto heads = options.Require<int64_t>("heads"),
             kv_heads = options.Require<int64_t>("kv_heads");
  const int ranks = options.Get<int>("ranks", 1);
  const bool shifted = options.Get<bool>("shifted", false);
  options.Finish();
  TORCH_CHECK_VALUE(
      ranks >= 1 && heads >= 0 && (heads == 0 || (kv_heads > 0 && heads % kv_heads == 0)), "ranks ",
      ranks, ", heads ", heads, ", kv_heads ", kv_heads,
      ": expected at least 1 rank, and heads in a multiple of kv_heads");
  lua_newtable(L);
  int calls = 0;
  const auto add = [&](int64_t queries, int64_t keys) {
    PushSplit(L, queries, keys, ranks);
    lua_rawseti(L, -2, ++calls);
  };
  if (!shifted) return add(heads, kv_heads), Pushed{1};
  for (const attention::ShiftedHeads& half : attention::SplitHalves(heads, kv_heads))
    if (half.queries.heads() > 0) add(half.queries.heads(), static_cast<int64_t>(half.kv.size()));
  return {1};
}

// Pushes the estimated cost of a layer, as a list by rank. Nothing is run.
Pushed LayerCost(lua_State* L, Options options) {
  const auto lengths = options.Require<std::vector<int64_t>>("lengths");
  const int ranks = options.Require<int>("ranks");
  const attention::StrategyOptions wanted = StrategyFrom(options);
  const int64_t window = options.Get<int64_t>("window", 0);
  const bool shifted = options.Get<bool>("shifted", false);
  options.Finish();
  TORCH_CHECK_VALUE(ranks >= 1, "ranks: expected at least 1, got ", ranks);
  TORCH_CHECK_VALUE(!shifted || window == 0, "shifted: cannot be combined with a window, got ",
                    window);
  TORCH_CHECK_VALUE(wanted.shape.heads > 0 && wanted.shape.head_dim > 0,
                    "heads, kv_heads and head_dim: required, to count bytes");
  const attention::Strategy strategy =
      base::ValueOrThrow(attention::ResolveStrategy(wanted, ranks));
  const auto area = [&](int64_t document, int64_t begin, int64_t end) {
    return shifted ? attention::ShiftedArea(lengths[document], begin, end)
                   : attention::CausalTileArea(document, begin, end);
  };
  const auto layout = base::ValueOrThrow(comm::Layout::Create(lengths, strategy.division, area));
  attention::AttentionShape shape = wanted.shape;
  shape.window = window;
  const attention::AttentionCost cost =
      shifted ? base::ValueOrThrow(
                    attention::CostOfShifted(strategy, *layout, shape, wanted.ranks_per_machine))
              : attention::CostOfAttention(strategy, *layout, shape, wanted.ranks_per_machine);
  return PushCost(L, *layout, cost);
}

// Pushes the estimated cost of a layer for a micro-batch and the strategy that runs for it; nil if
// documents share prefixes, because no estimate exists for these.
Pushed CostOf(lua_State* L, MeshAttention& attention, comm::Sequence& sequence, Options options) {
  const attention::AttentionShape shape = ShapeFrom(options);
  const int machine = options.Get<int>("ranks_per_machine", 0);
  const bool shifted = options.Get<bool>("shifted", false);
  options.Finish();
  TORCH_CHECK_VALUE(shape.heads > 0 && shape.head_dim > 0,
                    "heads, kv_heads and head_dim: required, to count bytes");
  const auto* const one =
      dynamic_cast<const attention::HybridAttention*>(&attention.strategy->For(sequence.lengths));
  if (one == nullptr || sequence.shares_prefixes()) return lua_pushnil(L), Pushed{1};
  const auto layout = base::ValueOrThrow(
      attention::LayoutOf(*attention.strategy, *attention.mesh, sequence, {}, shifted));
  return PushCost(L, *layout,
                  shifted ? base::ValueOrThrow(
                                attention::CostOfShifted(one->strategy(), *layout, shape, machine))
                          : attention::CostOfAttention(one->strategy(), *layout, shape, machine));
}

// Creates a mask from lists with one number for each document. If a list is absent, no document has
// that property.
std::shared_ptr<const attention::Mask> MakeMask(Options options) {
  using Numbers = std::vector<int64_t>;
  auto lengths = options.Require<Numbers>("lengths");
  const Numbers none(lengths.size(), 0);
  const auto prefix = options.Get<Numbers>("prefix", none),
             parents = options.Get<Numbers>("parents", none),
             tokens = options.Get<Numbers>("parent_tokens", none);
  const auto window = options.Find<int64_t>("window");
  options.Finish();
  for (const auto& [name, list] :
       {std::pair("prefix", &prefix), {"parents", &parents}, {"parent_tokens", &tokens}}) {
    TORCH_CHECK_VALUE(list->size() == lengths.size(), name, ": ", list->size(), " numbers for ",
                      lengths.size(), " documents");
  }
  std::vector<attention::DocumentMask> documents;
  for (size_t d = 0; d < lengths.size(); ++d)
    documents.push_back({prefix[d], parents[d] - 1, tokens[d]});
  return base::ValueOrThrow(
      attention::Mask::Create(std::move(lengths), std::move(documents), window));
}

std::shared_ptr<const comm::Layout> LayoutOf(MeshAttention& attention, comm::Sequence& sequence,
                                             std::optional<attention::LayerMasks> masks,
                                             std::optional<bool> shifted) {
  return base::ValueOrThrow(attention::LayoutOf(*attention.strategy, *attention.mesh, sequence,
                                                masks.value_or(attention::LayerMasks()),
                                                shifted.value_or(false)));
}

bool HaveParents(const attention::LayerMasks& masks) {
  for (const auto& mask : masks) {
    for (size_t d = 0; d < mask->lengths().size(); ++d)
      if (!mask->before(static_cast<int64_t>(d)).empty()) return true;
  }
  return false;
}

// Returns this rank's part of a micro-batch: ids, positions, targets, the attention plan; and the
// layout of the whole micro-batch.
auto Cut(MeshAttention& attention, comm::Sequence& sequence,
         std::optional<attention::LayerMasks> given, std::optional<bool> shifted) {
  const attention::LayerMasks masks = std::move(given).value_or(attention::LayerMasks());
  attention::MicroBatchShare share = base::ValueOrThrow(attention::CutMicroBatch(
      *attention.strategy, *attention.mesh, sequence, masks, shifted.value_or(false)));
  auto plan = std::make_shared<AttentionPlan>(
      AttentionPlan{std::move(share.plan),
                    mixers::PlanMixing(share.layout, attention.mesh->sp_group(), attention.mixing,
                                       sequence.parents),
                    std::move(share.lengths_T), sequence.shares_prefixes(), HaveParents(masks)});
  if (!shifted.value_or(false)) {
    plan->keys = std::make_shared<const attention::DocumentKeys>(
        share.layout, std::move(share.masks), attention.mesh->sp_group());
  }
  return std::make_tuple(share.ids_T, share.positions_T, share.targets_T, std::move(plan),
                         share.layout);
}

// Returns a description of the strategy that runs for a micro-batch, and the strategy that "auto"
// chose.
auto DescribeAttention(MeshAttention& attention, comm::Sequence& sequence) {
  return std::make_tuple(attention.strategy->Describe(sequence.lengths),
                         attention.strategy->Chosen(sequence.lengths));
}

at::Tensor Attend(AttentionPlan& plan, at::Tensor q_THD, at::Tensor k_TKD, at::Tensor v_TKD,
                  double scale, std::optional<int64_t> window, std::optional<double> softcap,
                  std::optional<int64_t> layer) {
  attention::ScoreRule rule;
  rule.scale = scale;
  rule.window = window.value_or(0);
  rule.softcap = softcap.value_or(0.0);
  rule.layer = layer.value_or(0);
  TORCH_CHECK_VALUE(rule.layer >= 0, "layer: expected 0 or more, got ", rule.layer);
  return plan.attention->Forward(q_THD, k_TKD, v_TKD, rule, /*kept=*/nullptr);
}

// Computes the gated delta rule over the ranks of the plan. `beta_TH` has one column for each value
// head.
at::Tensor ByDeltaRule(AttentionPlan& plan, at::Tensor x_TC, at::Tensor g, at::Tensor beta_TH,
                       Options options) {
  mixers::DeltaCall call{.x_TC = x_TC,
                         .taps_CW = TensorOption(options, "taps"),
                         .g = g,
                         .beta_TH = beta_TH,
                         .key_heads = options.Require<int64_t>("key_heads"),
                         .key_dim = options.Require<int64_t>("key_dim"),
                         .value_dim = options.Require<int64_t>("value_dim"),
                         .options = {.scale = options.Get<double>("scale", 1.0),
                                     .normalize = options.Get<bool>("normalize", false)}};
  options.Finish();
  TORCH_CHECK_VALUE(beta_TH.dim() == 2, "beta: expected [T, H], got ", beta_TH.sizes());
  call.value_heads = beta_TH.size(1);
  const int64_t channels = 2 * call.key_heads * call.key_dim + call.value_heads * call.value_dim;
  TORCH_CHECK_VALUE(x_TC.dim() == 2 && x_TC.size(1) == channels, "x: expected [T, ", channels,
                    "] for ", call.key_heads, " key heads of ", call.key_dim, " and ",
                    call.value_heads, " value heads of ", call.value_dim, ", got ", x_TC.sizes());
  return plan.mixing->Delta(call);
}

at::Tensor Convolve(AttentionPlan& plan, at::Tensor x_TC, at::Tensor taps_CW, Options options) {
  mixers::ConvolutionCall call{.x_TC = x_TC,
                               .taps_CW = taps_CW,
                               .bias_C = TensorOption(options, "bias"),
                               .silu = options.Get<bool>("silu", false)};
  options.Finish();
  return plan.mixing->Convolve(call);
}

}  // namespace

void OpenAttention(lua_State* L) {
  Class<MeshAttention>::Register(
      L, "Attention",
      {
          {"name",
           Bind<[](MeshAttention& attention) { return std::string(attention.strategy->name()); }>},
          {"kernels", Bind<[](MeshAttention& attention) { return attention.kernels; }>},
          {"layout", Bind<&LayoutOf>},
          {"cut", Bind<&Cut>},
          {"describe", Bind<&DescribeAttention>},
          {"cost", Bind<&CostOf>},
          {"__tostring", Bind<[](MeshAttention& attention) {
             const bool chooses = attention.strategy->name() == "auto";
             return absl::StrCat("Attention ",
                                 chooses ? std::string("auto") : attention.strategy->Describe({}),
                                 " over ", attention.mesh->sp_size(), " ranks");
           }>},
      });
  Class<AttentionPlan>::Register(
      L, "AttentionPlan",
      {{"convolve", Bind<&Convolve>}, {"delta", Bind<&ByDeltaRule>}, {"forward", Bind<&Attend>}});
  Class<attention::Mask>::Register(
      L, "Mask",
      {
          {"checksum", Bind<[](attention::Mask& mask, std::optional<int64_t> before) {
             return int64_t{mask.Checksum(static_cast<uint32_t>(before.value_or(0)))};
           }>},
          {"__tostring", Bind<[](attention::Mask& mask) {
             return absl::StrCat("Mask of ", mask.lengths().size(), " documents",
                                 mask.is_plain() ? ", plain" : "");
           }>},
      });
  PushModule(L, "moonring.attention",
             {{"create", Bind<&CreateMeshAttention>},
              {"bf16_tiles", Bind<[] {
                 return std::string(
                     attention::ChooseBf16Tiles() == attention::Bf16Tiles::kBf16 ? "bf16" : "fp32");
               }>},
              {"cost", Bind<&LayerCost>},
              {"layout", Bind<&LayOut>},
              {"mask", Bind<&MakeMask>},
              {"names", Bind<&attention::StrategyNames>},
              {"resolve", Bind<&Resolve>},
              {"split_heads", Bind<&SplitHeadsOf>}});
}

}  // namespace moonring::lua
