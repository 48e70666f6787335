// Lua bindings for rewards (lua/moonring/rewards): isolated Lua states, regular expressions, and
// external programs and services that return scores.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/error_value.h"
#include "lua/binding/options.h"
#include "lua/binding/plain_value.h"
#include "lua/bindings/bindings.h"
#include "lua/http/json_post.h"
#include "lua/rewards/child_process.h"
#include "lua/rewards/text_pattern.h"
#include "lua/vm/isolated_state.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongest = 1e7;  // largest timeout in seconds: some months

double CheckedSeconds(double seconds) {
  if (!(seconds > 0.0 && seconds <= kLongest))
    throw base::StatusError(absl::InvalidArgumentError(
        absl::StrCat("seconds: expected above 0, at most ", kLongest, ", got ", seconds)));
  return seconds;
}

Clock::time_point After(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(CheckedSeconds(seconds)));
}

void RefuseUnderSandbox(const Host& host, const char* what) {
  if (host.sandbox)
    throw base::StatusError(
        absl::PermissionDeniedError(absl::StrCat("--sandbox: a reward ", what)));
}

std::shared_ptr<IsolatedState> MakeIsolatedState(lua_State* L, Options options) {
  IsolatedStateOptions wanted;
  wanted.module = options.Require<std::string>("module");
  wanted.memory = options.Require<int64_t>("memory");
  wanted.memory_limit = options.Get<std::string>("memory_limit", "memory");
  options.Finish();
  if (wanted.memory <= 0)
    throw base::StatusError(absl::InvalidArgumentError(
        absl::StrCat("memory: expected above 0 bytes, got ", wanted.memory)));
  return std::make_shared<IsolatedState>(HostOf(L), std::move(wanted));
}

const char* NameOf(IsolatedState::End end) {
  switch (end) {
    case IsolatedState::End::kDeadline:
      return "deadline";
    case IsolatedState::End::kMemory:
      return "memory";
    default:
      return "raised";
  }
}

// The Lua method state:call(seconds, function, arguments): returns true and the function's results;
// or false, the kind of failure ("raised", "deadline", "memory"), the error and the call stack.
int CallIsolatedState(lua_State* L) {
  const std::shared_ptr<IsolatedState> state = Class<IsolatedState>::Read(L, 1);
  const double seconds = CheckedSeconds(Value<double>::Read(L, 2));
  const auto function = Value<std::string>::Read(L, 3);
  std::vector<PlainValue> arguments;
  if (!lua_isnoneornil(L, 4)) {
    const int count = static_cast<int>(ListSize(L, 4));
    for (int i = 1; i <= count; ++i) {
      lua_rawgeti(L, 4, i);
      arguments.push_back(ReadPlain(L, lua_gettop(L)));
      lua_pop(L, 1);
    }
  }
  const IsolatedState::Outcome outcome = state->Call(function, arguments, seconds);
  if (outcome.end == IsolatedState::End::kCancelled)
    throw base::StatusError(absl::CancelledError("the run was cancelled"));
  lua_settop(L, 0);
  lua_pushboolean(L, outcome.end == IsolatedState::End::kDone ? 1 : 0);
  if (outcome.end == IsolatedState::End::kDone) {
    luaL_checkstack(L, static_cast<int>(outcome.results.size()), "results");
    for (const PlainValue& result : outcome.results) PushPlain(L, result);
    return lua_gettop(L);
  }
  lua_pushstring(L, NameOf(outcome.end));
  PushError(L, outcome.error.error);
  Value<std::string>::Push(L, outcome.error.traceback);
  return 4;
}

// Returns the path of the program that runs reward functions of a Python file.
std::string PythonFunctions(lua_State* L) {
  return absl::StrCat(HostOf(L).assets.root(), "/lua/rewards/python_functions.py");
}

// Reads a file for a script in an isolated state. The restrictions of the state that created it
// apply.
std::string ReadForMaker(lua_State* L, std::string path) {
  const std::shared_ptr<base::Confinement>& outer = HostOf(L).limits.outer;
  const base::ConfinedScope confined(outer != nullptr ? outer : base::CurrentConfinement());
  base::ThrowIfError(base::CheckWholeFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw base::StatusError(absl::NotFoundError(absl::StrCat("cannot read ", path)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::shared_ptr<ChildProcess> StartChild(lua_State* L, std::vector<std::string> command) {
  RefuseUnderSandbox(HostOf(L), "starts no program (command)");
  if (HostOf(L).embedded)
    throw base::StatusError(
        absl::FailedPreconditionError("an embedded runtime starts no program (command)"));
  return base::ValueOrThrow(ChildProcess::Start(std::move(command)));
}

std::string AskChild(lua_State* L, ChildProcess& child, std::string line, double seconds) {
  const Host& host = HostOf(L);
  return base::ValueOrThrow(child.Ask(line, After(seconds), [&] { return IsCancelled(host); }));
}

// The Lua function post(url, json, seconds): returns the status code, its reason phrase, and the
// body.
std::tuple<int, std::string, std::string> Post(lua_State* L, std::string url, std::string json,
                                               double seconds) {
  const Host& host = HostOf(L);
  RefuseUnderSandbox(host, "asks no service (url)");
  base::ThrowIfError(CheckHttpAddress(url));
  HttpAnswer answer = base::ValueOrThrow(
      PostJson(url, std::move(json), After(seconds), [&] { return IsCancelled(host); }));
  return {answer.code, std::move(answer.reason), std::move(answer.body)};
}

void CheckAddress(std::string url) { base::ThrowIfError(CheckHttpAddress(url)); }

void Sleep(lua_State* L, double seconds) {
  for (const auto until = After(seconds); Clock::now() < until;) {
    if (IsCancelled(HostOf(L)))
      throw base::StatusError(absl::CancelledError("the run was cancelled"));
    std::this_thread::sleep_for(
        std::min<Clock::duration>(until - Clock::now(), std::chrono::milliseconds(100)));
  }
}

// Pushes a list of the match and its groups, with false for a group that did not match; nil without
// a match.
Pushed Find(lua_State* L, TextPattern& pattern, std::string text) {
  const auto match = base::ValueOrThrow(pattern.Find(text));
  if (!match.has_value()) return lua_pushnil(L), Pushed{1};
  lua_createtable(L, static_cast<int>(match->size()), 0);
  for (size_t i = 0; i < match->size(); ++i) {
    const std::optional<std::string>& group = (*match)[i];
    if (group.has_value()) {
      Value<std::string>::Push(L, *group);
    } else {
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return {1};
}

}  // namespace

void OpenRewards(lua_State* L) {
  Class<IsolatedState>::Register(
      L, "OwnState",
      {
          {"call", BindRaw<&CallIsolatedState, 4>},
          {"lines", Bind<[](IsolatedState& state) { return state.TakeLines(); }>},
          {"__tostring",
           Bind<[](IsolatedState& state) { return absl::StrCat("OwnState of ", state.module()); }>},
      });
  Class<ChildProcess>::Register(
      L, "ChildProcess",
      {
          {"ask", Bind<[](lua_State* state, ChildProcess& child, std::string line, double seconds) {
             return AskChild(state, child, line, seconds);
           }>},
          {"exchange", Bind<[](ChildProcess& child, std::string text) {
             return base::ValueOrThrow(child.Exchange(text));
           }>},
          {"lines", Bind<[](ChildProcess& child) { return child.TakeLines(); }>},
          {"pid", Bind<[](ChildProcess& child) { return static_cast<int>(child.pid()); }>},
          {"__tostring", Bind<[](ChildProcess& child) {
             return absl::StrCat("ChildProcess ", child.command()[0]);
           }>},
      });
  Class<TextPattern>::Register(
      L, "TextPattern",
      {
          {"find", Bind<&Find>},
          {"__tostring",
           Bind<[](TextPattern& pattern) { return absl::StrCat("TextPattern ", pattern.text()); }>},
      });
  PushModule(L, "moonring.rewards",
             {
                 {"own_state", Bind<&MakeIsolatedState>},
                 {"read", Bind<&ReadForMaker>},
                 {"child", Bind<&StartChild>},
                 {"post", Bind<&Post>},
                 {"check_address", Bind<&CheckAddress>},
                 {"sleep", Bind<&Sleep>},
                 {"python_functions", Bind<&PythonFunctions>},
                 {"pattern", Bind<[](std::string text) {
                    return base::ValueOrThrow(TextPattern::Compile(std::move(text)));
                  }>},
             });
}

}  // namespace moonring::lua
