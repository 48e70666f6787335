// Lua bindings for tensors, except LibTorch's operators (lua/operators) and gradients
// (lua/autograd): creation, properties, and conversion to Lua values. Arithmetic is also here, for
// speed.

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/memory/to_device.h"
#include "base/status/torch_status.h"
#include "kernels/random/counter_random.h"
#include "lua/autograd/backward.h"
#include "lua/autograd/function.h"
#include "lua/autograd/running_backward.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/binding/value_error.h"
#include "lua/bindings/bindings.h"
#include "lua/operators/tensor_methods.h"
#include "lua/operators/tensor_text.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

// Reads an operand: a tensor or a number. A number becomes a "wrapped" scalar, as in PyTorch: it
// never changes a floating dtype, and a number with a fraction makes an integer tensor fp32
// (converted to the integer dtype, the number would lose its fraction).
at::Tensor Operand(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TNUMBER) return Value<at::Tensor>::Read(L, index);
  const double number = lua_tonumber(L, index);
  const bool whole = IsWhole(number);
  // The scalar is stored on the host, even if the tensor is on a GPU: operators accept such a
  // scalar, and no copy to the GPU is needed.
  return at::native::wrapped_scalar_tensor(whole ? at::Scalar(static_cast<int64_t>(number))
                                                 : at::Scalar(number));
}

// A Lua metamethod for an operator such as +, with a tensor or a number on each side.
template <at::Tensor (*Operation)(const at::Tensor&, const at::Tensor&)>
int Binary(lua_State* L) {
  return Value<at::Tensor>::Push(L, Operation(Operand(L, 1), Operand(L, 2)));
}

int Negate(lua_State* L) {
  return Value<at::Tensor>::Push(L, -Value<at::Tensor>::Read(L, 1));
}  // Lua passes the operand twice

at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
at::Tensor Subtract(const at::Tensor& a, const at::Tensor& b) { return a - b; }
at::Tensor Multiply(const at::Tensor& a, const at::Tensor& b) { return a * b; }
at::Tensor Divide(const at::Tensor& a, const at::Tensor& b) { return a / b; }

at::Tensor Power(const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); }
at::Tensor Remainder(const at::Tensor& a, const at::Tensor& b) { return at::remainder(a, b); }

// Refuses a comparison of two tensors by an operator: Lua makes one boolean of its result.
template <char kName>
int RefuseComparison(lua_State*) {
  constexpr bool kEqual = kName == '=';
  TORCH_CHECK_VALUE(!kEqual,
                    "== and ~= compare handles, not values: x:equal(y) is one boolean, x:eq(y) "
                    "compares elements, rawequal(x, y) compares handles");
  TORCH_CHECK_VALUE(false,
                    "Lua's comparison is one boolean: x:lt(y), x:le(y), x:gt(y) and x:ge(y) "
                    "compare elements");
}

// Numbers of a tensor are read as doubles. Those of a bool tensor become booleans, because the
// number 0 is true in Lua.
void PushNumber(lua_State* L, double number, bool is_bool) {
  is_bool ? lua_pushboolean(L, number != 0) : lua_pushnumber(L, number);
}

at::Tensor OnHost(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK_VALUE(!tensor.is_complex(), name, ": a complex tensor has no number in Lua; ",
                    "expected x:real() or x:imag()");
  return tensor.detach().to(at::kCPU, at::kDouble);
}

int Item(lua_State* L) {
  const at::Tensor tensor = Value<at::Tensor>::Read(L, 1);
  TORCH_CHECK_VALUE(tensor.numel() == 1, "item: expected a tensor of one element, got shape ",
                    tensor.sizes());
  PushNumber(L, OnHost(tensor, "item").item<double>(), tensor.scalar_type() == at::kBool);
  return 1;
}

int Keep(lua_State* L) {
  Value<at::Tensor>::Read(L, 1);
  (*Class<TensorHandle>::Test(L, 1))->kept = true;
  lua_settop(L, 1);
  return 1;
}

void PushNested(lua_State* L, const at::Tensor& tensor, bool is_bool) {
  if (tensor.dim() == 0) {
    PushNumber(L, tensor.item<double>(), is_bool);
    return;
  }
  lua_createtable(L, static_cast<int>(tensor.size(0)), 0);
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    PushNested(L, tensor[i], is_bool);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
}

// Returns a list with `tolist` of each tensor. Tensors on a GPU are copied to the host together,
// with one synchronization.
int FetchTensors(lua_State* L) {
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
    const bool is_bool = tensor.scalar_type() == at::kBool;
    if (tensor.is_cpu()) {
      PushNested(L, OnHost(tensor, "fetch"), is_bool);
    } else {
      PushNested(L, here.narrow(0, begin, tensor.numel()).view(tensor.sizes()), is_bool);
      begin += tensor.numel();
    }
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return 1;
}

// The following functions convert a list of numbers, or nested lists, to a tensor.
constexpr size_t kMostDims = 64;  // LibTorch's limit

bool IsNumber(lua_State* L, int index) {
  return lua_type(L, index) == LUA_TNUMBER || lua_type(L, index) == LUA_TBOOLEAN;
}

double NumberAt(lua_State* L, int index) {
  return lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : lua_toboolean(L, index);
}

void ReadNested(lua_State* L, int index, size_t depth, std::vector<double>& values,
                std::vector<int64_t>& shape, bool& only_booleans) {
  if (IsNumber(L, index)) {
    only_booleans = only_booleans && lua_isboolean(L, index);
    TORCH_CHECK_VALUE(depth == shape.size(), "tensor: rows of different depth");
    values.push_back(NumberAt(L, index));
    return;
  }
  if (!lua_istable(L, index)) {
    throw ValueError(1, absl::StrCat("expected numbers or lists of numbers, got ",
                                     WordsOfValue(L, index), " among them"));
  }
  TORCH_CHECK_VALUE(depth < kMostDims, "tensor: a table that is nested more than ", kMostDims,
                    " deep, or contains itself");
  luaL_checkstack(L, 2, "tensor");
  if (const std::string fault = ListFault(L, index); !fault.empty()) throw ValueError(1, fault);
  const int64_t size = static_cast<int64_t>(lua_objlen(L, index));
  if (depth == shape.size() && values.empty()) shape.push_back(size);
  TORCH_CHECK_VALUE(depth < shape.size() && shape[depth] == size,
                    "tensor: rows of different length: one of ", size, " elements beside one of ",
                    depth < shape.size() ? shape[depth] : 0);
  for (int64_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    ReadNested(L, lua_gettop(L), depth + 1, values, shape, only_booleans);
    lua_pop(L, 1);
  }
}

// Reads a dtype or a device by name, for `to` and `tensor`.
void ReadWord(const std::string& word, at::TensorOptions& options) {
  if (const std::optional<at::ScalarType> dtype = FindDtype(word)) {
    options = options.dtype(*dtype);
  } else if (absl::StartsWith(word, "cpu") || absl::StartsWith(word, "cuda") || word == "meta") {
    options = options.device(at::Device(word));
    const bool missing = options.device().is_cuda() &&
                         (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0);
    if (missing) {
      base::ThrowIfError(absl::FailedPreconditionError(
          absl::StrCat("device '", word, "': this build or this machine has no GPU")));
    }
  } else {
    DtypeNamed(word);  // raises an error with the known names
  }
}

int MakeTensor(lua_State* L) {
  std::vector<double> values;
  std::vector<int64_t> shape;
  at::TensorOptions options(at::kFloat);
  bool learns = false, only_booleans = true;
  if (IsNumber(L, 1)) {
    values.push_back(NumberAt(L, 1));
    only_booleans = lua_isboolean(L, 1);
  } else {
    CheckType(L, 1, LUA_TTABLE);
    ReadNested(L, 1, 0, values, shape, only_booleans);
  }
  if (only_booleans && !values.empty()) options = options.dtype(at::kBool);
  if (lua_type(L, 2) == LUA_TTABLE) {
    Options given(L, 2);
    for (const char* key : {"dtype", "device"}) {
      if (const auto word = given.Find<std::string>(key)) ReadWord(*word, options);
    }
    learns = given.Get<bool>("requires_grad", false);
    given.Finish();
  } else if (!lua_isnoneornil(L, 2)) {
    ReadWord(Value<std::string>::Read(L, 2), options);
  }
  at::Tensor made = at::tensor(values, at::kDouble).reshape(shape).to(options);
  if (learns) made.requires_grad_(true);
  return Value<at::Tensor>::Push(L, made);
}

// The Lua method to(dtype), to(device), to(dtype, device) in any order, or to(other), which uses
// dtype and device of another tensor.
int To(lua_State* L) {
  const at::Tensor x = Value<at::Tensor>::Read(L, 1);
  if (Class<TensorHandle>::Test(L, 2) != nullptr) {
    if (HasMoreArguments(L, 2)) RefuseArguments(L, 2);
    const at::Tensor other = Value<at::Tensor>::Read(L, 2);
    return Value<at::Tensor>::Push(L, base::ToDevice(x, other.device()).to(other.scalar_type()));
  }
  at::TensorOptions options = x.options();
  const auto what = Value<std::string>::Read(L, 2);
  const auto more = Value<std::optional<std::string>>::Read(L, 3);
  ReadWord(what, options);
  if (more.has_value()) ReadWord(*more, options);
  return Value<at::Tensor>::Push(L, base::ToDevice(x, options.device()).to(options.dtype()));
}

// The Lua method size(dim): one size; without an argument, all sizes.
int Size(lua_State* L) {
  const at::Tensor x = Value<at::Tensor>::Read(L, 1);
  if (lua_isnoneornil(L, 2)) return Value<std::vector<int64_t>>::Push(L, x.sizes().vec());
  return Value<int64_t>::Push(L, x.size(Value<int64_t>::Read(L, 2)));
}

// Returns uniform random numbers that depend only on the seed and their position: fp32 of the given
// shape on the CPU. With the option `rows`, int64 [N], row n of the result [N, width] depends on
// (seed, step, rows[n]) instead of n, so that a token's numbers do not depend on where it is
// packed.
at::Tensor Uniform(std::vector<int64_t> shape, Options options) {
  const auto seed = options.Require<uint64_t>("seed");
  const auto step = options.Get<uint64_t>("step", 0);
  const auto name = options.Get<std::string>("name", "script");
  const at::Tensor rows = TensorOption(options, "rows");
  options.Finish();
  for (const int64_t size : shape)
    TORCH_CHECK_VALUE(size >= 0, "uniform: expected sizes from 0, got ", shape);
  if (!rows.defined())
    return kernels::InitialUniform(kernels::CounterKey(seed, step, name), name, shape);
  TORCH_CHECK_VALUE(shape.size() == 1, "uniform: with rows expected one size, the width, got ",
                    shape);
  return kernels::CounterUniform(kernels::CounterKey(seed, step, name), rows, shape[0]);
}

int IsTensor(lua_State* L) {
  return Value<bool>::Push(L, Class<TensorHandle>::Test(L, 1) != nullptr);
}

int64_t Length(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() > 0, "#: a tensor of shape [] has no rows");
  return x.size(0);
}

}  // namespace

void RegisterTensor(lua_State* L) {
  Class<TensorHandle>::Register(
      L, "Tensor",
      {
          {"__add", BindRaw<&Binary<&Add>, 2>},
          {"__sub", BindRaw<&Binary<&Subtract>, 2>},
          {"__mul", BindRaw<&Binary<&Multiply>, 2>},
          {"__div", BindRaw<&Binary<&Divide>, 2>},
          {"__pow", BindRaw<&Binary<&Power>, 2>},
          {"__mod", BindRaw<&Binary<&Remainder>, 2>},
          {"__unm", BindRaw<&Negate, 2>},
          {"__eq", BindRaw<&RefuseComparison<'='>, 2>},
          {"__lt", BindRaw<&RefuseComparison<'<'>, 2>},
          {"__le", BindRaw<&RefuseComparison<'l'>, 2>},
          {"__len", Bind<[](at::Tensor x, std::optional<at::Tensor>) { return Length(x); }>},
          {"__tostring", Bind<[](TensorHandle& handle) {
             return handle.tensor.defined() ? TensorText(handle.tensor)
                                            : std::string("Tensor (closed)");
           }>},
          {"close", Bind<[](TensorHandle& handle) { handle.tensor.reset(); }>},
          {"keep", BindRaw<&Keep, 1>},
          {"logsigmoid", Bind<[](at::Tensor x) { return at::log_sigmoid(x); }>},
          {"item", BindRaw<&Item, 1>},
          {"to", BindRaw<&To, 3>},
          {"on",
           Bind<[](at::Tensor x, at::Tensor other) { return base::ToDevice(x, other.device()); }>},
          {"dtype", Bind<[](at::Tensor x) { return NameOfDtype(x.scalar_type()); }>},
          {"device", Bind<[](at::Tensor x) { return x.device().str(); }>},
          {"shape", Bind<[](at::Tensor x) { return x.sizes().vec(); }>},
          {"size", BindRaw<&Size, 2>},
          {"dim", Bind<[](at::Tensor x) { return x.dim(); }>},
          {"numel", Bind<[](at::Tensor x) { return x.numel(); }>},
          {"tolist", Bind<[](lua_State* state, at::Tensor x) {
             PushNested(state, OnHost(x, "tolist"), x.scalar_type() == at::kBool);
             return Pushed{1};
           }>},
          {"requires_grad", Bind<[](at::Tensor x) { return x.requires_grad(); }>},
          {"grad", Bind<[](at::Tensor x) { return x.grad(); }>},
          {"grad_fn", Bind<[](at::Tensor x) { return NameOfNode(x); }>},
          {"backward", BindRaw<&Backward, 3>},
      });
}

void OpenTensor(lua_State* L) {
  OpenTensorBook(L);
  OpenRunningBackward(L);
  RegisterTensor(L);
  PushModule(L, "moonring",
             {
                 {"scope", BindRaw<&Scope, kAnyNumber>},
                 {"tensor", BindRaw<&MakeTensor, 2>},
                 {"fetch", BindRaw<&FetchTensors, 1>},
                 {"uniform", Bind<&Uniform>},
                 {"is_tensor", BindRaw<&IsTensor, 1>},
             });
}

void OpenAutograd(lua_State* L) {
  PushModule(L, "moonring.autograd",
             {
                 {"backward", BindRaw<&BackwardOfAll, 2>},
                 {"grad", BindRaw<&Grad, 3>},
                 {"is_recording", Bind<[] { return at::GradMode::is_enabled(); }>},
                 {"no_grad", BindRaw<&NoGrad, kAnyNumber>},
                 {"with_grad", BindRaw<&WithGrad, kAnyNumber>},
                 {"func", BindRaw<&MakeFunction, 1>},
             });
}

void OpenOperators(lua_State* L) { OpenOperators(L, HostOf(L).sandbox); }

}  // namespace moonring::lua
