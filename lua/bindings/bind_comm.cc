// Lua bindings for the mesh of ranks, layouts of micro-batches over them, packed sequences, and
// parameters.

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/autograd/parameter.h"
#include "base/autograd/used_parameter.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/gradient_book.h"
#include "lua/bindings/script_call.h"
#include "lua/host/prompt.h"
#include "lua/vm/vm.h"
#include "trainer/sharding/sharded_weight.h"

namespace moonring::lua {

// The parent of each document that has one, as scripts write it: { [2] = { document = 1, length =
// 150 } }. In Lua document numbers count from 1, in C++ from 0.
using ParentTable = std::map<int64_t, comm::Parent>;

template <>
struct Value<ParentTable> {
  static constexpr int kLuaType = LUA_TTABLE;
  static ParentTable Read(lua_State* L, int index) {
    ParentTable parents;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
      const auto document = Value<int64_t>::Read(L, lua_gettop(L) - 1);
      Options fields(L, lua_gettop(L));
      const auto parent = fields.Require<int64_t>("document");
      const auto length = fields.Require<int64_t>("length");
      fields.Finish();
      parents[document - 1] = {parent - 1, length};
    }
    return parents;
  }
  static int Push(lua_State* L, const ParentTable& parents) {
    lua_newtable(L);
    for (const auto& [document, parent] : parents) {
      lua_createtable(L, 0, 2);
      lua_pushnumber(L, static_cast<double>(parent.document + 1));
      lua_setfield(L, -2, "document");
      lua_pushnumber(L, static_cast<double>(parent.tokens));
      lua_setfield(L, -2, "length");
      lua_rawseti(L, -2, static_cast<int>(document) + 1);
    }
    return 1;
  }
};

namespace {

std::shared_ptr<comm::Mesh> MakeMesh(lua_State* L, Options options) {
  const int sp = options.Get<int>("sp", 1);
  const double deadline = options.Get<double>("deadline", 1800);
  const std::string device = options.Get<std::string>("device", "cpu");
  const bool alone = options.Get<bool>("alone", false);
  options.Finish();
  TORCH_CHECK_VALUE(device == "cpu" || device == "cuda", "device: expected cpu or cuda, got '",
                    device, "'");
  if (alone) return base::ValueOrThrow(comm::Mesh::Create(comm::World::Alone(), sp));
  auto rendezvous = base::ValueOrThrow(comm::RendezvousFromEnvironment());
  std::shared_ptr<comm::World> world = comm::World::Alone();
  if (rendezvous.has_value()) {
    rendezvous->deadline = absl::Seconds(deadline);
    rendezvous->cuda = device == "cuda";
    rendezvous->own_process = !HostOf(L).embedded;
    const std::shared_ptr<Prompt> prompt = HostOf(L).prompt;
    PromptRanks* const ranks = prompt == nullptr ? nullptr : prompt->ranks.get();
    world = base::ValueOrThrow(ranks == nullptr ? comm::World::Connect(*rendezvous)
                                                : ranks->Connect(*rendezvous));
    NoteRanks(L, world->size());
    HostOf(L).closers.push_back([world, prompt](const ScriptError& error) {
      if (prompt != nullptr && prompt->ranks != nullptr) prompt->ranks->Forget(world);
      if (!error.message.empty()) world->Abort(error.message);
      world->Close();
    });
  }
  return base::ValueOrThrow(comm::Mesh::Create(std::move(world), sp));
}

// Gathers a number from every rank, in rank order. `function`: the name of the running call.
std::vector<double> GatherNumbers(lua_State* L, comm::Communicator& group, const char* function,
                                  double mine) {
  std::vector<double> numbers;
  for (const int64_t bits : MatchScriptCall(L, group, function, std::bit_cast<int64_t>(mine)))
    numbers.push_back(std::bit_cast<double>(bits));
  return numbers;
}

double SumOverRanks(lua_State* L, comm::Mesh& mesh, double number) {
  const std::vector<double> numbers = GatherNumbers(L, mesh.world(), "mesh:sum", number);
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

// The maximum is NaN if any number is NaN.
double MaxOverRanks(lua_State* L, comm::Mesh& mesh, double number) {
  double most = number;
  for (const double each : GatherNumbers(L, mesh.world(), "mesh:max", number))
    if (each > most || std::isnan(each)) most = each;
  return most;
}

at::Tensor Summed(lua_State* L, comm::Communicator& group, const char* function,
                  const at::Tensor& tensor) {
  MatchScriptCall(L, group, CallWith(function, tensor));
  at::Tensor total = tensor.detach().clone();
  base::ThrowIfError(group.AllReduceSum(total));
  return total;
}

// The Lua method mesh:sum_dp(x); x is an integer (summed as int64) or a tensor.
int SumDp(lua_State* L) {
  const std::shared_ptr<comm::Mesh> held = Class<comm::Mesh>::Read(L, 1);
  comm::Mesh& mesh = *held;
  constexpr char kFunction[] = "mesh:sum_dp";
  if (Class<TensorHandle>::Test(L, 2) != nullptr)
    return Value<at::Tensor>::Push(L,
                                   Summed(L, mesh.dp(), kFunction, Value<at::Tensor>::Read(L, 2)));
  const std::vector<int64_t> counts =
      MatchScriptCall(L, mesh.dp(), absl::StrCat(kFunction, " of an integer"),
                      Value<int64_t>::Read(L, 2));
  return Value<int64_t>::Push(L, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

// Whether all ranks of the sp group have passed the same number.
bool IsSameOnSp(lua_State* L, comm::Mesh& mesh, int64_t number) {
  const std::vector<int64_t> numbers = MatchScriptCall(L, mesh.sp(), "mesh:same_sp", number);
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t n) { return n == number; });
}

// Gathers a text from every rank, in rank order.
std::vector<std::string> GatherTexts(lua_State* L, comm::Communicator& group, const char* function,
                                     const std::string& mine) {
  const std::vector<int64_t> bytes =
      MatchScriptCall(L, group, function, static_cast<int64_t>(mine.size()));
  at::Tensor letters = at::empty({static_cast<int64_t>(mine.size())}, at::kByte);
  std::copy(mine.begin(), mine.end(), letters.data_ptr<uint8_t>());
  std::vector<std::string> texts;
  for (const at::Tensor& text : base::ValueOrThrow(group.AllGather(letters, bytes))) {
    texts.emplace_back(reinterpret_cast<const char*>(text.const_data_ptr<uint8_t>()), text.numel());
  }
  return texts;
}

// Moves the gradients out of the parameters, by name.
std::map<std::string, at::Tensor> TakeGradients(ParameterList& list) {
  std::map<std::string, at::Tensor> taken;
  for (const auto& parameter : list.parameters) {
    if (parameter->gradient().defined()) taken[parameter->name()] = parameter->gradient();
    parameter->ClearGradient();
  }
  return taken;
}

void AddGradients(ParameterList& list, std::map<std::string, at::Tensor> gradients) {
  for (const auto& parameter : list.parameters) {
    const auto found = gradients.find(parameter->name());
    if (found == gradients.end()) continue;
    parameter->TakeGradient(std::move(found->second));
    gradients.erase(found);
  }
  if (!gradients.empty())
    base::ThrowIfError(absl::NotFoundError(absl::StrCat(
        "add_gradients: no parameter ", gradients.begin()->first, " in this list")));
}

std::vector<at::Tensor> LayoutIndices(const comm::Layout& layout) {
  std::vector<at::Tensor> indices;
  for (int rank = 0; rank < layout.ranks(); ++rank) indices.push_back(layout.Index(rank));
  return indices;
}

// Returns the tokens that one rank of the context axis holds, as contiguous spans: for each span
// the document's number (from 1), the span's begin and its end, all in one flat list.
std::vector<int64_t> ContextSpans(const comm::Layout& layout, int place) {
  TORCH_CHECK_VALUE(place >= 0 && place < layout.division().contexts, "place ", place, " of ",
                    layout.division().contexts);
  std::vector<int64_t> numbers;
  for (const comm::Span& span : layout.context_spans(place))
    numbers.insert(numbers.end(), {span.document + 1, span.begin, span.end});
  return numbers;
}

// Pushes the layout's grid of ranks: { contexts, heads, placement, ownership }.
Pushed PushGrid(lua_State* L, comm::Layout& layout) {
  const comm::Division& division = layout.division();
  lua_createtable(L, 0, 4);
  lua_pushnumber(L, division.contexts);
  lua_setfield(L, -2, "contexts");
  lua_pushnumber(L, division.heads);
  lua_setfield(L, -2, "heads");
  lua_pushstring(
      L, division.placement == comm::Placement::kHeadFirst ? "head_first" : "context_first");
  lua_setfield(L, -2, "placement");
  Value<std::string>::Push(L, std::string(comm::OwnershipName(division.ownership)));
  lua_setfield(L, -2, "ownership");
  return {1};
}

// Concatenates the documents' lists, each of which has one number per token.
std::vector<int64_t> Flat(const char* name, const std::vector<std::vector<int64_t>>& numbers,
                          const std::vector<int64_t>& lengths) {
  TORCH_CHECK_VALUE(numbers.size() == lengths.size(), name, " of ", numbers.size(),
                    " documents for ", lengths.size());
  std::vector<int64_t> flat;
  for (size_t d = 0; d < numbers.size(); ++d) {
    TORCH_CHECK_VALUE(static_cast<int64_t>(numbers[d].size()) == lengths[d], "document ", d, ": ",
                      numbers[d].size(), " ", name, " for ", lengths[d], " ids");
    flat.insert(flat.end(), numbers[d].begin(), numbers[d].end());
  }
  return flat;
}

// Options: documents, a list of lists of token ids; labels, of the same shape (default: the ids);
// positions, of the same shape (default: from 0 in each document); parents, by document number.
std::shared_ptr<comm::Sequence> MakeSequence(Options options) {
  const auto documents = options.Require<std::vector<std::vector<int64_t>>>("documents");
  const auto labels = options.Get<std::vector<std::vector<int64_t>>>("labels", documents);
  const auto positions = options.Find<std::vector<std::vector<int64_t>>>("positions");
  const auto parents = options.Get<ParentTable>("parents", {});
  options.Finish();
  auto sequence = std::make_shared<comm::Sequence>();
  for (const std::vector<int64_t>& document : documents)
    sequence->lengths.push_back(static_cast<int64_t>(document.size()));
  const std::vector<int64_t> ids = Flat("ids", documents, sequence->lengths),
                             flat_labels = Flat("labels", labels, sequence->lengths);
  sequence->ids_T = at::tensor(ids, at::kLong);
  sequence->positions_T =
      positions.has_value()
          ? at::tensor(Flat("positions", *positions, sequence->lengths), at::kLong)
          : comm::PositionsInDocuments(sequence->lengths);
  sequence->targets_T = comm::ShiftLabels(at::tensor(flat_labels, at::kLong), sequence->lengths);
  if (!parents.empty()) sequence->parents.resize(documents.size());
  for (const auto& [document, parent] : parents) {
    TORCH_CHECK_VALUE(document >= 0 && document < static_cast<int64_t>(documents.size()),
                      "parents: document ", document + 1, ": expected 1 to ", documents.size());
    TORCH_CHECK_VALUE(parent.document >= 0, "parents: document ", document + 1, ": its parent is ",
                      parent.document + 1, ", expected 1 to ", documents.size());
    sequence->parents[document] = parent;
  }
  base::ThrowIfError(comm::Validate(*sequence));
  return sequence;
}

// Returns the parents, by document number; nullopt if no document has one.
std::optional<ParentTable> ParentsOf(comm::Sequence& sequence) {
  if (!sequence.shares_prefixes()) return std::nullopt;
  ParentTable parents;
  for (size_t d = 0; d < sequence.parents.size(); ++d) {
    if (sequence.parents[d].document >= 0) parents[static_cast<int64_t>(d)] = sequence.parents[d];
  }
  return parents;
}

std::optional<at::Tensor> OwnDocuments(comm::Sequence& sequence) {
  if (!sequence.shares_prefixes()) return std::nullopt;
  return at::tensor(comm::OwnDocuments(sequence), at::kLong);
}

// Expands one number for each document to one for each of its tokens.
at::Tensor OfTokens(comm::Sequence& sequence, std::vector<int64_t> numbers) {
  TORCH_CHECK_VALUE(numbers.size() == sequence.lengths.size(), "of_tokens: ", numbers.size(),
                    " numbers for ", sequence.lengths.size(), " documents");
  return at::tensor(numbers, at::kLong).repeat_interleave(at::tensor(sequence.lengths, at::kLong));
}

int64_t ChecksumOf(comm::Sequence& sequence, std::optional<int64_t> before,
                   std::optional<at::Tensor> labels) {
  int64_t counted = 0;
  if (labels.has_value()) counted = labels->ne(comm::kIgnore).sum().item<int64_t>();
  return comm::Checksum(sequence, static_cast<uint32_t>(before.value_or(0)), counted);
}

at::Tensor WeightOf(lua_State* L, base::Parameter& parameter) {
  if (!parameter.is_spread()) {
    NoteWeight(L, parameter.weight(), "");
    return parameter.weight();
  }
  at::Tensor copy = parameter.LeaseWhole(parameter.dtype());
  NoteWeight(L, copy,
             absl::StrCat(parameter.name(), ": this is a copy of a weight that is held elsewhere",
                          " (zero_stage, masters of bf16, experts of several ranks): ",
                          "Parameter:copy_ writes it"));
  return copy;
}

at::Tensor UseOf(std::shared_ptr<base::Parameter> parameter, std::optional<std::string> dtype) {
  return base::Use(parameter, dtype.has_value() ? DtypeNamed(*dtype) : parameter->dtype());
}

// Creates a parameter with a copy of `values`.
std::shared_ptr<base::Parameter> MakeParameter(lua_State* L, std::string name, at::Tensor values,
                                               Options options) {
  const bool trainable = options.Get<bool>("trainable", true);
  options.Finish();
  TORCH_CHECK_VALUE(values.is_floating_point(), "parameter '", name,
                    "': expected floating-point numbers, got ", NameOfDtype(values.scalar_type()));
  auto parameter =
      std::make_shared<base::Parameter>(std::move(name), values.detach().clone(), trainable);
  NoteParameter(L, parameter);
  return parameter;
}

}  // namespace

void OpenComm(lua_State* L) {
  Class<comm::Mesh>::Register(
      L, "Mesh",
      {
          {"sp_size", Bind<[](comm::Mesh& mesh) { return mesh.sp_size(); }>},
          {"sp_rank", Bind<[](comm::Mesh& mesh) { return mesh.sp_rank(); }>},
          {"dp_size", Bind<[](comm::Mesh& mesh) { return mesh.dp_size(); }>},
          {"dp_rank", Bind<[](comm::Mesh& mesh) { return mesh.dp_rank(); }>},
          {"rank", Bind<[](comm::Mesh& mesh) { return mesh.world().rank(); }>},
          {"size", Bind<[](comm::Mesh& mesh) { return mesh.world().size(); }>},
          {"sum", Bind<&SumOverRanks>},
          {"max", Bind<&MaxOverRanks>},
          {"sum_dp", BindRaw<&SumDp, 2>},
          {"sum_sp", Bind<[](lua_State* state, comm::Mesh& mesh, at::Tensor tensor) {
             return Summed(state, mesh.sp(), "mesh:sum_sp", tensor);
           }>},
          {"gather_numbers", Bind<[](lua_State* state, comm::Mesh& mesh, double number) {
             return GatherNumbers(state, mesh.world(), "mesh:gather_numbers", number);
           }>},
          {"same_sp", Bind<&IsSameOnSp>},
          {"gather_sp", Bind<[](lua_State* state, comm::Mesh& mesh, std::string text) {
             return GatherTexts(state, mesh.sp(), "mesh:gather_sp", text);
           }>},
          {"waited", Bind<[](comm::Mesh& mesh) { return absl::ToDoubleSeconds(mesh.waited()); }>},
          {"gather", Bind<[](lua_State* state, comm::Mesh& mesh, std::string text) {
             return GatherTexts(state, mesh.world(), "mesh:gather", text);
           }>},
          {"barrier", Bind<[](lua_State* state, comm::Mesh& mesh) {
             MatchScriptCall(state, mesh.world(), "mesh:barrier");
           }>},
          {"traffic", Bind<[](comm::Mesh& mesh) {
             const comm::Communicator::Counters sp = mesh.sp().counters(),
                                                world = mesh.world().counters();
             return std::make_tuple(sp.steps + world.steps, sp.bytes_sent + world.bytes_sent);
           }>},
          {"__tostring", Bind<[](comm::Mesh& mesh) {
             return absl::StrCat("Mesh dp=", mesh.dp_size(), " x sp=", mesh.sp_size(), ", rank ",
                                 mesh.world().rank(), " (dp ", mesh.dp_rank(), ", sp ",
                                 mesh.sp_rank(), ")");
           }>},
      });
  Class<comm::Layout>::Register(
      L, "Layout",
      {
          {"ranks", Bind<[](comm::Layout& layout) { return layout.ranks(); }>},
          {"tokens", Bind<[](comm::Layout& layout) { return layout.tokens(); }>},
          {"local_tokens",
           Bind<[](comm::Layout& layout, int rank) { return layout.local_tokens(rank); }>},
          {"cut", Bind<[](comm::Layout& layout, at::Tensor stream, int rank) {
             return layout.Cut(stream, rank);
           }>},
          {"indices", Bind<[](comm::Layout& layout) { return LayoutIndices(layout); }>},
          {"grid", Bind<&PushGrid>},
          {"context_spans",
           Bind<[](comm::Layout& layout, int place) { return ContextSpans(layout, place); }>},
          {"__tostring", Bind<[](comm::Layout& layout) {
             return absl::StrCat("Layout of ", layout.tokens(), " tokens in ",
                                 layout.lengths().size(), " documents over ", layout.ranks(),
                                 " ranks, ", comm::OwnershipName(layout.division().ownership));
           }>},
      });
  Class<comm::Sequence>::Register(
      L, "Sequence",
      {
          {"ids", Bind<[](comm::Sequence& sequence) { return sequence.ids_T; }>},
          {"positions", Bind<[](comm::Sequence& sequence) { return sequence.positions_T; }>},
          {"targets", Bind<[](comm::Sequence& sequence) { return sequence.targets_T; }>},
          {"identity", Bind<[](comm::Sequence& sequence) { return sequence.identity_T; }>},
          {"lengths", Bind<[](comm::Sequence& sequence) { return sequence.lengths; }>},
          {"parents", Bind<&ParentsOf>},
          {"own_documents", Bind<&OwnDocuments>},
          {"prompts", Bind<[](comm::Sequence& sequence) { return comm::PromptLengths(sequence); }>},
          {"of_tokens", Bind<&OfTokens>},
          {"tokens", Bind<[](comm::Sequence& sequence) { return sequence.ids_T.numel(); }>},
          {"checksum", Bind<&ChecksumOf>},
          {"__tostring", Bind<[](comm::Sequence& sequence) {
             return absl::StrCat("Sequence of ", sequence.ids_T.numel(), " tokens in ",
                                 sequence.lengths.size(), " documents");
           }>},
      });
  Class<base::Parameter>::Register(
      L, "Parameter",
      {
          {"name", Bind<[](base::Parameter& parameter) { return parameter.name(); }>},
          {"rename", Bind<[](base::Parameter& parameter, std::string name) {
             parameter.Rename(std::move(name));
           }>},
          {"trainable", Bind<[](base::Parameter& parameter) { return parameter.trainable(); }>},
          {"weight", Bind<&WeightOf>},
          {"use", Bind<&UseOf>},
          {"shape", Bind<[](base::Parameter& parameter) { return parameter.shape().vec(); }>},
          {"dtype",
           Bind<[](base::Parameter& parameter) { return NameOfDtype(parameter.dtype()); }>},
          {"set_trainable", Bind<[](base::Parameter& parameter, bool trainable) {
             parameter.set_trainable(trainable);
           }>},
          {"copy_", Bind<[](base::Parameter& parameter, at::Tensor weight) {
             trainer::WriteWeight(parameter, weight);
           }>},
          {"gradient", Bind<[](base::Parameter& parameter) { return parameter.gradient(); }>},
          {"__tostring", Bind<[](base::Parameter& parameter) {
             return c10::str("Parameter ", parameter.name(), " ", parameter.dtype(), " ",
                             parameter.shape());
           }>},
      });
  Class<ParameterList>::Register(
      L, "Parameters",
      {
          {"list", Bind<[](ParameterList& list) { return list.parameters; }>},
          {"size", Bind<[](ParameterList& list) { return list.parameters.size(); }>},
          {"join", Bind<[](ParameterList& list, ParameterList& more) {
             ParameterList joined = list;
             joined.parameters.insert(joined.parameters.end(), more.parameters.begin(),
                                      more.parameters.end());
             return std::make_shared<ParameterList>(std::move(joined));
           }>},
          {"without_gradient", Bind<[](ParameterList& list) {
             std::vector<std::string> names;
             for (const auto& parameter : list.parameters) {
               if (parameter->trainable() && !parameter->gradient().defined())
                 names.push_back(parameter->name());
             }
             return names;
           }>},
          {"clear_gradients", Bind<[](ParameterList& list) {
             for (const auto& parameter : list.parameters) parameter->ClearGradient();
           }>},
          {"take_gradients", Bind<&TakeGradients>},
          {"add_gradients", Bind<&AddGradients>},
          {"numel", Bind<[](ParameterList& list) {
             int64_t numel = 0;
             for (const auto& parameter : list.parameters) numel += parameter->numel();
             return numel;
           }>},
          {"__tostring", Bind<[](ParameterList& list) {
             return absl::StrCat("Parameters (", list.parameters.size(), ")");
           }>},
      });
  PushModule(L, "moonring.comm",
             {
                 {"mesh", Bind<&MakeMesh>},
                 {"sequence", Bind<&MakeSequence>},
                 {"parameter", Bind<&MakeParameter>},
                 {"unlisted", Bind<[](lua_State* state, ParameterList& list) {
                    return UnlistedParameters(state, list.parameters);
                  }>},
                 {"parameters", Bind<[](std::vector<std::shared_ptr<base::Parameter>> list) {
                    return std::make_shared<ParameterList>(ParameterList{std::move(list)});
                  }>},
             });
}

}  // namespace moonring::lua
