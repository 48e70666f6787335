// The operations of a tensor that scripts need: arithmetic, reductions, autograd. Everything heavy
// is in the cores.

#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/autograd/custom_function.h"
#include "comm/memory/to_device.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/bindings.h"

namespace moonring::lua {
namespace {

struct DtypeName {
  const char* name;
  at::ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {{"fp32", at::kFloat},
                                 {"fp64", at::kDouble},
                                 {"bf16", at::kBFloat16},
                                 {"int64", at::kLong},
                                 {"bool", at::kBool}};

std::string NameOf(at::ScalarType dtype) {
  for (const DtypeName& each : kDtypes) {
    if (each.dtype == dtype) return each.name;
  }
  return c10::toString(dtype);
}

// A tensor from a tensor or a number on the stack. A number is a "wrapped" one, as in PyTorch: it
// never changes a floating dtype, and one with a fraction makes integers fp32 (a scalar of the
// integers' own dtype would lose the fraction).
at::Tensor Operand(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TNUMBER) return Value<at::Tensor>::Read(L, index);
  const double number = lua_tonumber(L, index);
  const bool whole = number == std::floor(number) && std::fabs(number) <= 9007199254740992.0;
  // On the host whatever the tensor is on: operators take such a number along, where one on a
  // device would have to be written there first.
  return at::native::wrapped_scalar_tensor(whole ? at::Scalar(static_cast<int64_t>(number))
                                                 : at::Scalar(number));
}

// An operator with a number on either side.
template <at::Tensor (*Operation)(const at::Tensor&, const at::Tensor&)>
int Binary(lua_State* L) {
  return Value<at::Tensor>::Push(L, Operation(Operand(L, 1), Operand(L, 2)));
}

int Negate(lua_State* L) {
  return Value<at::Tensor>::Push(L, -Value<at::Tensor>::Read(L, 1));
}  // Lua gives the operand twice

// A method with a tensor or a number as its argument.
template <at::Tensor (*Operation)(const at::Tensor&, const at::Tensor&)>
int Compare(lua_State* L) {
  const at::Tensor x = Value<at::Tensor>::Read(L, 1);
  return Value<at::Tensor>::Push(L, Operation(x, Operand(L, 2)));
}

at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
at::Tensor Subtract(const at::Tensor& a, const at::Tensor& b) { return a - b; }
at::Tensor Multiply(const at::Tensor& a, const at::Tensor& b) { return a * b; }
at::Tensor Divide(const at::Tensor& a, const at::Tensor& b) { return a / b; }

at::Tensor Power(const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); }
at::Tensor Greater(const at::Tensor& a, const at::Tensor& b) { return a > b; }
at::Tensor Less(const at::Tensor& a, const at::Tensor& b) { return a < b; }
at::Tensor Equal(const at::Tensor& a, const at::Tensor& b) { return a == b; }

at::Tensor Clamp(const at::Tensor& x, std::optional<double> least, std::optional<double> most) {
  TORCH_CHECK_VALUE(least.has_value() || most.has_value(),
                    "clamp: wanted a least or a most value, got neither");
  const auto scalar = [](std::optional<double> bound) {
    return bound.has_value() ? std::optional<at::Scalar>(*bound) : std::nullopt;
  };
  return x.clamp(scalar(least), scalar(most));
}

double Item(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.numel() == 1, "item: wanted a tensor of one element, got shape ",
                    tensor.sizes());
  return tensor.detach().to(at::kCPU, at::kDouble).item<double>();
}

int Keep(lua_State* L) {
  Value<at::Tensor>::Read(L, 1);
  (*Class<TensorHandle>::Test(L, 1))->kept = true;
  lua_settop(L, 1);
  return 1;
}

void PushNested(lua_State* L, const at::Tensor& tensor) {
  if (tensor.dim() == 0) {
    lua_pushnumber(L, tensor.item<double>());
    return;
  }
  lua_createtable(L, static_cast<int>(tensor.size(0)), 0);
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    PushNested(L, tensor[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
}

// What tolist gives of each tensor of a list, in its order. All that lie on a device come by one
// copy, which is waited for once.
int Fetch(lua_State* L) {
  std::vector<at::Tensor> tensors = Value<std::vector<at::Tensor>>::Read(L, 1), away;
  for (at::Tensor& tensor : tensors) {
    tensor = tensor.detach();
    if (!tensor.is_cpu()) away.push_back(tensor.to(at::kDouble).reshape({-1}));
  }
  at::Tensor here;
  if (!away.empty()) here = at::cat(away).to(at::kCPU);
  lua_createtable(L, static_cast<int>(tensors.size()), 0);
  int64_t begin = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (tensor.is_cpu()) {
      PushNested(L, tensor.to(at::kDouble));
    } else {
      PushNested(L, here.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return 1;
}

// `joined` adds a gradient of zero: its part of the graph runs backward, with the collectives in
// it, whatever the loss was made of.
void Backward(const at::Tensor& loss, const std::optional<at::Tensor>& joined) {
  TORCH_CHECK_VALUE(loss.numel() == 1, "backward: wanted a loss of one element, got shape ",
                    loss.sizes());
  std::vector<at::Tensor> roots, gradients;
  if (loss.requires_grad()) {
    roots.push_back(loss);
    gradients.push_back(at::ones_like(loss));
  }
  if (joined.has_value() && joined->requires_grad()) {
    roots.push_back(*joined);
    gradients.push_back(at::zeros_like(*joined));
  }
  TORCH_CHECK_VALUE(
      !roots.empty(),
      "backward: this loss has no gradient: it was made of plain numbers, under no_grad, or with "
      "detach, item, tolist or objectives.logits. Make it of the log-probs; on a rank without a "
      "target loss:backward(log_probs) takes part in what the other ranks' backward communicates");
  comm::Backpropagate(roots, gradients);
}

std::string Describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << "Tensor " << NameOf(tensor.scalar_type()) << " " << tensor.sizes() << " on "
       << tensor.device();
  if (tensor.numel() == 1) text << " " << tensor.detach().to(at::kCPU, at::kDouble).item<double>();
  return text.str();
}

int NoGrad(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  at::NoGradGuard no_grad;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// A list of numbers (or lists of them) -> tensor.
constexpr size_t kMostDims = 64;  // LibTorch's

void ReadNested(lua_State* L, int index, size_t depth, std::vector<double>& values,
                std::vector<int64_t>& shape) {
  if (lua_type(L, index) == LUA_TNUMBER) {
    TORCH_CHECK_VALUE(depth == shape.size(), "tensor: rows of different depth");
    values.push_back(lua_tonumber(L, index));
    return;
  }
  luaL_checktype(L, index, LUA_TTABLE);
  TORCH_CHECK_VALUE(depth < kMostDims, "tensor: a table that is nested more than ", kMostDims,
                    " deep, or holds itself");
  luaL_checkstack(L, 2, "tensor");
  const int64_t size = static_cast<int64_t>(lua_objlen(L, index));
  if (depth == shape.size() && values.empty()) shape.push_back(size);
  TORCH_CHECK_VALUE(depth < shape.size() && shape[depth] == size,
                    "tensor: rows of different length");
  for (int64_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    ReadNested(L, lua_gettop(L), depth + 1, values, shape);
    lua_pop(L, 1);
  }
}

int MakeTensor(lua_State* L) {
  std::vector<double> values;
  std::vector<int64_t> shape;
  luaL_checktype(L, 1, LUA_TTABLE);
  ReadNested(L, 1, 0, values, shape);
  const at::ScalarType dtype =
      lua_isnoneornil(L, 2) ? at::kFloat : DtypeNamed(Value<std::string>::Read(L, 2));
  return Value<at::Tensor>::Push(L, at::tensor(values, at::kDouble).reshape(shape).to(dtype));
}

}  // namespace

at::ScalarType DtypeNamed(const std::string& name) {
  for (const DtypeName& each : kDtypes) {
    if (name == each.name) return each.dtype;
  }
  TORCH_CHECK_VALUE(false, "dtype: wanted fp32, fp64, bf16, int64 or bool, got '", name, "'");
}

void RegisterTensor(lua_State* L) {
  Class<TensorHandle>::Register(
      L, "Tensor",
      {
          {"__add", BindRaw<&Binary<&Add>, 2>},
          {"__sub", BindRaw<&Binary<&Subtract>, 2>},
          {"__mul", BindRaw<&Binary<&Multiply>, 2>},
          {"__div", BindRaw<&Binary<&Divide>, 2>},
          {"__pow", BindRaw<&Binary<&Power>, 2>},
          {"__unm", BindRaw<&Negate, 2>},
          {"__tostring", Bind<[](TensorHandle& handle) {
             return handle.tensor.defined() ? Describe(handle.tensor)
                                            : std::string("Tensor (closed)");
           }>},
          {"close", Bind<[](TensorHandle& handle) { handle.tensor.reset(); }>},
          {"keep", BindRaw<&Keep, 1>},
          {"copy_", BindRaw<&CopyInto, 2>},
          {"sum", Bind<[](at::Tensor x) { return x.sum(); }>},
          {"mean", Bind<[](at::Tensor x) { return x.mean(); }>},
          {"norm", Bind<[](at::Tensor x) { return x.norm(); }>},
          {"abs", Bind<[](at::Tensor x) { return x.abs(); }>},
          {"exp", Bind<[](at::Tensor x) { return x.exp(); }>},
          {"log", Bind<[](at::Tensor x) { return x.log(); }>},
          {"square", Bind<[](at::Tensor x) { return x.square(); }>},
          {"sqrt", Bind<[](at::Tensor x) { return x.sqrt(); }>},
          {"sigmoid", Bind<[](at::Tensor x) { return x.sigmoid(); }>},
          {"relu", Bind<[](at::Tensor x) { return x.relu(); }>},
          {"clamp", Bind<[](at::Tensor x, std::optional<double> least, std::optional<double> most) {
             return Clamp(x, least, most);
           }>},
          {"gt", BindRaw<&Compare<&Greater>, 2>},
          {"lt", BindRaw<&Compare<&Less>, 2>},
          {"eq", BindRaw<&Compare<&Equal>, 2>},
          {"logsigmoid", Bind<[](at::Tensor x) { return at::log_sigmoid(x); }>},
          {"detach", Bind<[](at::Tensor x) { return x.detach(); }>},
          {"item", Bind<[](at::Tensor x) { return Item(x); }>},
          {"to", Bind<[](at::Tensor x, std::string dtype) { return x.to(DtypeNamed(dtype)); }>},
          {"on",
           Bind<[](at::Tensor x, at::Tensor other) { return comm::ToDevice(x, other.device()); }>},
          {"dtype", Bind<[](at::Tensor x) { return NameOf(x.scalar_type()); }>},
          {"shape", Bind<[](at::Tensor x) { return x.sizes().vec(); }>},
          {"numel", Bind<[](at::Tensor x) { return x.numel(); }>},
          {"select", Bind<[](at::Tensor x, int64_t index) { return x.select(0, index); }>},
          {"slice", Bind<[](at::Tensor x, int64_t begin, int64_t end, std::optional<int64_t> step) {
             return x.slice(0, begin, end, step.value_or(1));
           }>},
          {"index", Bind<[](at::Tensor x, std::vector<int64_t> rows) {
             return x.index_select(0, comm::ToDevice(at::tensor(rows, at::kLong), x.device()));
           }>},
          {"masked",
           Bind<[](at::Tensor x, at::Tensor mask) { return x.masked_select(mask.to(at::kBool)); }>},
          {"tolist", Bind<[](lua_State* state, at::Tensor x) {
             PushNested(state, x.detach().to(at::kCPU, at::kDouble));
             return Pushed{1};
           }>},
          {"requires_grad", Bind<[](at::Tensor x) { return x.requires_grad(); }>},
          {"backward",
           Bind<[](at::Tensor loss, std::optional<at::Tensor> joined) { Backward(loss, joined); }>},
      });
}

void OpenTensor(lua_State* L) {
  OpenTensorBook(L);
  RegisterTensor(L);
  PushModule(L, "moonring",
             {
                 {"scope", BindRaw<&Scope, kAnyNumber>},
                 {"no_grad", BindRaw<&NoGrad, kAnyNumber>},
                 {"tensor", BindRaw<&MakeTensor, 2>},
                 {"fetch", BindRaw<&Fetch, 1>},
                 {"cat", Bind<[](std::vector<at::Tensor> rows) {
                    TORCH_CHECK_VALUE(!rows.empty(), "cat: wanted at least one tensor, got none");
                    return at::cat(rows);
                  }>},
             });
}

}  // namespace moonring::lua
