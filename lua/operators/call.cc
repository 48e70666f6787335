#include "lua/operators/call.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/stack.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/tensor.h"
#include "lua/operators/integer_division.h"
#include "lua/operators/values.h"

namespace moonring::lua {
namespace {

constexpr int kMostArguments = 32;  // LibTorch's longest schema has fewer
constexpr size_t kMostSchemas = 6;  // most schemas that an error message lists

// The arguments of a call, as indices of the Lua stack.
struct Given {
  int count = 0;  // positional arguments, from index 1
  struct Keyword {
    const char* name;  // a string that is on the stack
    int index;
  };
  Keyword keywords[kMostArguments];  // only the first keyword_count are set
  int keyword_count = 0;
};

// The stack index of each argument of an overload; 0: the argument is omitted.
struct Places {
  std::array<int, kMostArguments> index{};
  int spread = 0;     // index of the first of several sizes that were written without braces
  int converted = 0;  // how many numbers are converted to tensors
};

// Whether the value is a table with string keys and not a handle.
bool IsKeywords(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  lua_pushnil(L);
  if (lua_next(L, index) == 0) return false;
  const bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named;
}

Given ReadGiven(lua_State* L) {
  Given given{.count = lua_gettop(L)};
  if (given.count == 0 || !IsKeywords(L, given.count)) return given;
  const int table = given.count--;
  luaL_checkstack(L, kMostArguments + LUA_MINSTACK, "an operator's arguments");
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    TORCH_CHECK_VALUE(lua_type(L, -2) == LUA_TSTRING,
                      "a table of arguments by name has an element without one");
    TORCH_CHECK_VALUE(given.keyword_count < kMostArguments, "too many arguments by name");
    const char* const name = lua_tostring(L, -2);
    lua_insert(L, -2);  // the value stays below the key, which lua_next needs on top
    given.keywords[given.keyword_count++] = {name, lua_gettop(L) - 1};
  }
  return given;
}

// Returns the index of the argument with that name; -1 if there is none. The name `out` stands for
// the output argument, whatever the schema calls it.
int ArgumentNamed(const Overload& overload, absl::string_view name) {
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    if (overload.arguments[i].name == name) return static_cast<int>(i);
  }
  return name == "out" && overload.outs == 1 ? static_cast<int>(overload.arguments.size()) - 1 : -1;
}

// Returns the index of the argument that receives the positional value number `place`. The first
// value of a method is `self`.
int ArgumentAt(const Overload& overload, bool is_method, int place) {
  if (!is_method || overload.self == 0) return place;
  return place == 0 ? overload.self : place - (place <= overload.self);
}

// Checks whether a call matches this overload. `why`, if not null, receives the first argument that
// does not fit.
class Matcher {
 public:
  Matcher(lua_State* L, const Given& given, const Overload& overload, bool is_method)
      : L_(L), given_(given), overload_(overload), is_method_(is_method) {}

  std::optional<Places> Match(std::string* why) {
    why_ = why;
    if (!TakePlaces() || !TakeKeywords() || !IsComplete()) return std::nullopt;
    return places_;
  }

 private:
  // Accepts sizes that are written without braces, as in x:view(2, 3).
  bool TakeSizes(int first) {
    for (int i = first; i <= given_.count; ++i) {
      if (lua_type(L_, i) != LUA_TNUMBER) return false;
    }
    places_.spread = first;
    places_.index[overload_.positional - 1] = first;
    return true;
  }

  bool TakePlaces() {
    const int before = overload_.positional - 1;  // arguments before the sizes
    if (overload_.takes_sizes && given_.count > before && lua_type(L_, before + 1) == LUA_TNUMBER) {
      for (int i = 0; i < before; ++i) {
        if (!Take(i, i + 1)) return false;
      }
      return TakeSizes(before + 1);
    }
    if (given_.count > overload_.positional) {
      return No(
          absl::StrCat("takes at most ", overload_.positional, " by place, got ", given_.count));
    }
    for (int i = 0; i < given_.count; ++i) {
      if (!Take(ArgumentAt(overload_, is_method_, i), i + 1)) return false;
    }
    return true;
  }

  bool TakeKeywords() {
    for (int i = 0; i < given_.keyword_count; ++i) {
      const auto& [name, index] = given_.keywords[i];
      const int argument = ArgumentNamed(overload_, name);
      if (argument < 0) return No(absl::StrCat("has no argument '", name, "'"));
      if (places_.index[argument] != 0)
        return No(absl::StrCat("argument '", name, "' is given twice"));
      if (!Take(argument, index)) return false;
    }
    return true;
  }

  bool IsComplete() {
    for (size_t i = 0; i < overload_.arguments.size(); ++i) {
      if (places_.index[i] == 0 && !overload_.arguments[i].has_default)
        return No(absl::StrCat("argument '", overload_.arguments[i].name, "' is missing"));
    }
    return true;
  }

  bool Take(int argument, int index) {
    const ArgumentRule& rule = overload_.arguments[argument];
    places_.index[argument] = index;
    if (lua_isnil(L_, index)) {
      if (!rule.optional && !rule.has_default)
        return No(
            absl::StrCat("argument '", rule.name, "': expected ", DescribeRule(rule), ", got nil"));
      return true;
    }
    const Fit fit = FitOf(L_, index, rule);
    if (fit == Fit::kNo) {
      if (why_ == nullptr) return false;
      return No(absl::StrCat("argument '", rule.name, "': expected ", DescribeRule(rule), ", got ",
                             DescribeValue(L_, index)));
    }
    places_.converted += fit == Fit::kConverted;
    return true;
  }

  bool No(std::string reason) {
    if (why_ != nullptr) *why_ = std::move(reason);
    return false;
  }

  lua_State* const L_;
  const Given& given_;
  const Overload& overload_;
  const bool is_method_;
  std::string* why_ = nullptr;
  Places places_;
};

std::string DescribeGiven(lua_State* L, const Given& given) {
  std::vector<std::string> words;
  for (int i = 1; i <= given.count; ++i) words.push_back(DescribeValue(L, i));
  for (int i = 0; i < given.keyword_count; ++i) {
    words.push_back(
        absl::StrCat(given.keywords[i].name, " = ", DescribeValue(L, given.keywords[i].index)));
  }
  return absl::StrJoin(words, ", ");
}

// Throws the error that no overload matches. The message lists each schema, with the first argument
// that does not fit.
[[noreturn]] void Refuse(lua_State* L, const Operator& op, const Given& given, bool is_method) {
  std::string text = absl::StrCat(op.name, ": no overload takes (", DescribeGiven(L, given), ")");
  size_t shown = 0;
  for (const Overload& overload : op.overloads) {
    if (shown == kMostSchemas || (overload.outs > 0 && shown > 0)) {
      absl::StrAppend(&text, "\n  ..");
      break;
    }
    std::string why;
    (void)Matcher(L, given, overload, is_method).Match(&why);
    absl::StrAppend(&text, "\n  ", SchemaText(overload), ": ", why);
    ++shown;
  }
  throw base::StatusError(absl::InvalidArgumentError(text));
}

c10::IValue ReadSizes(lua_State* L, int first, int last, const ArgumentRule& rule) {
  c10::List<int64_t> sizes;
  for (int i = first; i <= last; ++i) {
    const double number = lua_tonumber(L, i);
    TORCH_CHECK_VALUE(number == static_cast<double>(static_cast<int64_t>(number)), "argument '",
                      rule.name, "': expected whole numbers, got ", number);
    sizes.push_back(static_cast<int64_t>(number));
  }
  return sizes;
}

void CheckWrites(lua_State* L, const Operator& op, const c10::IValue& value) {
  if (value.isTensor()) {
    CheckWrite(L, value.toTensor(), op.name.c_str());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) CheckWrite(L, each, op.name.c_str());
  }
}

torch::jit::Stack ReadArguments(lua_State* L, const Overload& overload, const Given& given,
                                const Places& places) {
  torch::jit::Stack stack;
  const std::vector<c10::Argument>& arguments = overload.schema().arguments();
  stack.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ArgumentRule& rule = overload.arguments[i];
    const int index = places.index[i];
    if (index != 0 && index == places.spread) {
      stack.push_back(ReadSizes(L, index, given.count, rule));
    } else if (index != 0 && !lua_isnil(L, index)) {
      stack.push_back(ReadArgument(L, index, rule));
    } else if (index != 0 && rule.optional) {
      stack.emplace_back();
    } else {
      stack.push_back(*arguments[i].default_value());
    }
  }
  return stack;
}

// If a result is one of the written arguments, pushes that argument's handle and returns true.
bool PushWritten(lua_State* L, const Overload& overload, const Places& places,
                 const at::Tensor& result) {
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    const int index = places.index[i];
    if (!overload.arguments[i].written || index == 0) continue;
    auto* const handle = Class<TensorHandle>::Test(L, index);
    if (handle == nullptr || *handle == nullptr || !(*handle)->tensor.is_same(result)) continue;
    lua_pushvalue(L, index);
    return true;
  }
  return false;
}

// Shortens LibTorch's message that an operator has no kernel to its first line; the rest lists all
// kernels that exist.
std::string WithoutKernels(absl::string_view message) {
  return std::string(message.substr(0, message.find(" This could be because")));
}

// LibTorch asks its users to report failures of its internal checks. Here they come from arguments
// that an operator does not check otherwise, so only the check's own words are kept.
std::string WithoutAssert(absl::string_view message) {
  constexpr absl::string_view kReport = "please report a bug to PyTorch.";
  if (!absl::StrContains(message, "INTERNAL ASSERT")) return std::string(message);
  const size_t report = message.find(kReport);
  const absl::string_view words =
      report == absl::string_view::npos ? "" : message.substr(report + kReport.size());
  return absl::StrCat("a check inside LibTorch failed",
                      absl::StripAsciiWhitespace(words).empty() ? "" : ":", words);
}

// Reads the arguments and runs the operator. LibTorch's errors are raised with the operator's name
// and a description of the arguments.
torch::jit::Stack Run(lua_State* L, const Operator& op, const Overload& overload,
                      const Given& given, const Places& places) {
  absl::Status status;
  try {
    torch::jit::Stack stack = ReadArguments(L, overload, given, places);
    for (size_t i = 0; i < stack.size(); ++i) {
      if (overload.arguments[i].written) CheckWrites(L, op, stack[i]);
    }
    CheckDivision(overload, stack);
    overload.handle.callBoxed(stack);
    return stack;
  } catch (const base::StatusError&) {
    throw;
  } catch (const std::exception& exception) {
    status = base::StatusOfException(exception);
  }
  const absl::StatusCode code = status.code() == absl::StatusCode::kInternal
                                    ? absl::StatusCode::kInvalidArgument
                                    : status.code();
  const std::string message = WithoutAssert(status.message());
  throw base::StatusError(
      absl::Status(code, absl::StrCat(op.name, ": ", WithoutKernels(message), " (given ",
                                      DescribeGiven(L, given), "; ", SchemaText(overload), ")")));
}

// Returns the best matching overload, with its arguments; null if none matches.
const Overload* Choose(lua_State* L, const Operator& op, const Given& given, bool is_method,
                       Places& places) {
  const Overload* chosen = nullptr;
  for (const Overload& overload : op.overloads) {
    if (overload.arguments.size() > kMostArguments) continue;
    std::optional<Places> match = Matcher(L, given, overload, is_method).Match(nullptr);
    if (!match.has_value() || (chosen != nullptr && match->converted >= places.converted)) continue;
    chosen = &overload;
    places = *match;
    if (places.converted == 0) break;
  }
  return chosen;
}

// Whether a call ends with {}: either an empty list, or no named arguments.
bool EndsWithEmptyTable(lua_State* L, const Given& given) {
  return given.keyword_count == 0 && given.count > 0 && lua_type(L, given.count) == LUA_TTABLE &&
         lua_objlen(L, given.count) == 0;
}

int PushResults(lua_State* L, const Overload& overload, const Places& places,
                const torch::jit::Stack& stack) {
  luaL_checkstack(L, static_cast<int>(stack.size()) + LUA_MINSTACK, "an operator's results");
  const std::vector<c10::Argument>& results = overload.schema().returns();
  for (size_t i = 0; i < stack.size(); ++i) {
    const c10::IValue& result = stack[i];
    if (result.isTensor() && PushWritten(L, overload, places, result.toTensor())) continue;
    if (results[i].real_type()->kind() == c10::TypeKind::ScalarTypeType) {
      lua_pushstring(L, NameOfDtype(result.toScalarType()).c_str());
      continue;
    }
    PushResult(L, result);
  }
  return static_cast<int>(stack.size());
}

int Call(lua_State* L, bool is_method) {
  LookAtHeap(L);
  const auto& op = *static_cast<const Operator*>(lua_touserdata(L, lua_upvalueindex(1)));
  Given given = ReadGiven(L);
  Places places;
  const Overload* chosen = Choose(L, op, given, is_method, places);
  if (chosen == nullptr && EndsWithEmptyTable(L, given)) {
    --given.count;
    chosen = Choose(L, op, given, is_method, places);
    if (chosen == nullptr) ++given.count;
  }
  if (chosen == nullptr) Refuse(L, op, given, is_method);
  return PushResults(L, *chosen, places, Run(L, op, *chosen, given, places));
}

int CallFunction(lua_State* L) { return Call(L, false); }
int CallMethod(lua_State* L) { return Call(L, true); }

}  // namespace

void PushOperator(lua_State* L, const Operator* op, bool as_method) {
  lua_pushlightuserdata(L, const_cast<Operator*>(op));
  lua_pushcclosure(L, as_method ? &CallMethod : &CallFunction, 1);
}

}  // namespace moonring::lua
