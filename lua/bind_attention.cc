// Attention strategies, and the plan of a micro-batch.

#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "attention/attention.h"
#include "attention/strategies.h"
#include "attention/tile_plan.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"
#include "comm/torch_status.h"
#include "lua/bindings.h"
#include "lua/class.h"
#include "lua/options.h"
#include "lua/tensor.h"

namespace moonring::lua {
namespace {

// A strategy with the mesh whose sp axis it works on: the mesh owns the layout rule, the strategy says which it needs.
struct MeshAttention {
  std::shared_ptr<comm::Mesh> mesh;
  std::shared_ptr<attention::Attention> strategy;
};

std::shared_ptr<MeshAttention> Create(Options options) {
  auto mesh = options.Require<std::shared_ptr<comm::Mesh>>("mesh");
  std::string strategy = options.Get<std::string>("strategy", "zigzag-ring");
  options.Finish();
  auto created = attention::CreateAttention({.strategy = std::move(strategy), .group = mesh->sp_group()});
  return std::make_shared<MeshAttention>(MeshAttention{mesh, comm::ValueOrThrow(std::move(created))});
}

std::shared_ptr<const comm::Layout> LayoutOf(const MeshAttention& attention, const comm::Sequence& sequence) {
  return comm::ValueOrThrow(attention.mesh->MakeLayout(sequence.lengths, attention.strategy->ownership(), attention::CausalTileArea));
}

// This rank's share of a micro-batch: ids, positions, targets, and the plan by which its attention runs. All by one layout.
auto Cut(MeshAttention& attention, comm::Sequence& sequence) {
  const std::shared_ptr<const comm::Layout> layout = LayoutOf(attention, sequence);
  std::shared_ptr<attention::PlannedAttention> plan = comm::ValueOrThrow(attention.strategy->Plan(layout));
  const int rank = attention.mesh->sp_rank();
  return std::make_tuple(layout->Cut(sequence.ids_T, rank), layout->Cut(sequence.positions_T, rank), layout->Cut(sequence.targets_T, rank), std::move(plan));
}

}  // namespace

void OpenAttention(lua_State* L) {
  Class<MeshAttention>::Register(
      L, "Attention",
      {
          {"name", Bind<[](MeshAttention& attention) { return std::string(attention.strategy->name()); }>},
          {"layout", Bind<[](MeshAttention& attention, comm::Sequence& sequence) { return LayoutOf(attention, sequence); }>},
          {"cut", Bind<&Cut>},
          {"__tostring", Bind<[](MeshAttention& attention) {
             return absl::StrCat("Attention ", attention.strategy->name(), " over ", attention.mesh->sp_size(), " ranks");
           }>},
      });
  Class<attention::PlannedAttention>::Register(
      L, "AttentionPlan",
      {
          {"forward", Bind<[](attention::PlannedAttention& plan, at::Tensor q_THD, at::Tensor k_TKD, at::Tensor v_TKD, double scale) {
             return plan.Forward(q_THD, k_TKD, v_TKD, scale);
           }>},
      });
  PushModule(L, "moonring.attention", {{"create", Bind<&Create>}});
}

}  // namespace moonring::lua
