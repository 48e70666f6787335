// Lua bindings for differentiable collectives over the ranks of an sp group, and for the check that
// a loss uses them correctly.

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status/torch_status.h"
#include "comm/autograd_collectives.h"
#include "comm/layout.h"
#include "comm/loss_kinds.h"
#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/script_call.h"

namespace moonring::lua {
namespace {

using Counts = std::vector<int64_t>;

// Gathers `counts` of every rank: the result of rank r begins at r x counts.size().
Counts GatherCounts(comm::Communicator& group, const Counts& counts) {
  const Counts each(group.size(), static_cast<int64_t>(counts.size()));
  Counts all;
  for (const at::Tensor& mine :
       base::ValueOrThrow(group.AllGather(at::tensor(counts, at::kLong), each))) {
    const int64_t* const begin = mine.const_data_ptr<int64_t>();
    all.insert(all.end(), begin, begin + mine.numel());
  }
  return all;
}

// Announces a call with rows, of which each rank may have another number.
void MatchRows(lua_State* L, comm::Mesh& mesh, absl::string_view function, const at::Tensor& rows) {
  if (mesh.sp_size() == 1) return;
  MatchScriptCall(L, mesh.sp(),
                  absl::StrCat(function, " of rows of ", NameOfDtype(rows.scalar_type()), " [",
                               absl::StrJoin(rows.sizes().slice(1), ", "), "]"));
}

// Announces a call with a tensor of the same shape on each rank.
void MatchTensor(lua_State* L, comm::Mesh& mesh, absl::string_view function,
                 const at::Tensor& tensor) {
  if (mesh.sp_size() > 1) MatchScriptCall(L, mesh.sp(), CallWith(function, tensor));
}

at::Tensor Sum(lua_State* L, at::Tensor x, comm::Mesh& mesh) {
  MatchTensor(L, mesh, "collectives.sum", x);
  return comm::AllReduceSumIdentityBackward(x, mesh.sp_group());
}

// Only the backward communicates, but a rank that leaves the call out would be missed there.
at::Tensor Spread(lua_State* L, at::Tensor x, comm::Mesh& mesh) {
  MatchTensor(L, mesh, "collectives.spread", x);
  return comm::Spread(x, mesh.sp_group());
}

void CheckIsTensorOfRows(const char* name, const at::Tensor& rows) {
  TORCH_CHECK_VALUE(rows.dim() >= 1, name, ": expected a tensor of rows, got a scalar");
}

at::Tensor GatherRows(lua_State* L, at::Tensor rows, comm::Mesh& mesh) {
  CheckIsTensorOfRows("gather", rows);
  MatchRows(L, mesh, "collectives.gather", rows);
  return comm::GatherRows(rows, GatherCounts(mesh.sp(), {rows.size(0)}), mesh.sp_group());
}

at::Tensor ReduceScatterRows(lua_State* L, at::Tensor rows, Counts counts, comm::Mesh& mesh) {
  MatchTensor(L, mesh, "collectives.reduce_scatter", rows);
  return comm::ReduceScatterRows(rows, counts, mesh.sp_group());
}

// Returns the received rows, and how many came from each rank.
std::tuple<at::Tensor, Counts> AllToAllRows(lua_State* L, at::Tensor rows, Counts send,
                                            comm::Mesh& mesh) {
  CheckIsTensorOfRows("all_to_all", rows);
  TORCH_CHECK_VALUE(static_cast<int>(send.size()) == mesh.sp_size(), "all_to_all: ", send.size(),
                    " counts of rows for ", mesh.sp_size(), " ranks");
  const int64_t total = std::accumulate(send.begin(), send.end(), int64_t{0});
  TORCH_CHECK_VALUE(rows.size(0) == total, "all_to_all: counts of ", total,
                    " rows for a tensor of shape ", rows.sizes());
  MatchRows(L, mesh, "collectives.all_to_all", rows);
  const Counts all = GatherCounts(mesh.sp(), send);
  Counts receive;
  for (int rank = 0; rank < mesh.sp_size(); ++rank)
    receive.push_back(all[rank * mesh.sp_size() + mesh.sp_rank()]);
  return {comm::AllToAllRows(rows, send, receive, mesh.sp_group()), receive};
}

Counts LocalTokens(const comm::Layout& layout, const comm::Mesh& mesh) {
  TORCH_CHECK_VALUE(layout.ranks() == mesh.sp_size(), "a layout over ", layout.ranks(),
                    " ranks, sp groups of ", mesh.sp_size());
  Counts tokens;
  for (int rank = 0; rank < layout.ranks(); ++rank) tokens.push_back(layout.local_tokens(rank));
  return tokens;
}

// The values of every rank's tokens, in the order of the stream.
at::Tensor GatherStream(lua_State* L, at::Tensor values_T, comm::Layout& layout,
                        comm::Mesh& mesh) {
  CheckIsTensorOfRows("gather_stream", values_T);
  MatchRows(L, mesh, "collectives.gather_stream", values_T);
  const Counts tokens = LocalTokens(layout, mesh);
  const at::Tensor whole = comm::GatherRows(values_T, tokens, mesh.sp_group());
  return layout.Join(whole.split_with_sizes(tokens));
}

// This rank's tokens of the sum of every rank's stream.
at::Tensor ReduceScatterStream(lua_State* L, at::Tensor stream_T, comm::Layout& layout,
                               comm::Mesh& mesh) {
  MatchTensor(L, mesh, "collectives.reduce_scatter_stream", stream_T);
  const Counts tokens = LocalTokens(layout, mesh);
  std::vector<at::Tensor> cut;
  for (int rank = 0; rank < layout.ranks(); ++rank) cut.push_back(layout.Cut(stream_T, rank));
  return comm::ReduceScatterRows(at::cat(cut), tokens, mesh.sp_group());
}

// Returns what is wrong ("sum", "share", "weights"), the node, and the collective inside of which
// it is; nothing if the loss has no such fault.
std::tuple<std::optional<std::string>, std::optional<std::string>, std::optional<std::string>>
KindBreachOf(at::Tensor loss, std::string kind) {
  TORCH_CHECK_VALUE(kind == "sharded" || kind == "replicated",
                    "kind: expected sharded or replicated, got '", kind, "'");
  const auto breach = comm::FindKindBreach(
      loss, kind == "sharded" ? comm::Kind::kSharded : comm::Kind::kReplicated);
  if (!breach.has_value()) return {};
  using What = comm::KindBreach::What;
  const char* const what = breach->what == What::kSum     ? "sum"
                           : breach->what == What::kShare ? "share"
                                                          : "weights";
  return {what, breach->node, breach->inside};
}

}  // namespace

void OpenCollectives(lua_State* L) {
  PushModule(
      L, "moonring.collectives",
      {
          {"sum", Bind<&Sum>},
          {"spread", Bind<&Spread>},
          {"gather", Bind<&GatherRows>},
          {"reduce_scatter", Bind<&ReduceScatterRows>},
          {"all_to_all", Bind<&AllToAllRows>},
          {"gather_stream", Bind<&GatherStream>},
          {"reduce_scatter_stream", Bind<&ReduceScatterStream>},
          {"kind_breach", Bind<&KindBreachOf>},
      });
}

}  // namespace moonring::lua
