// The host from a script's view: errors and their texts, exit codes, modules, options, handles, the
// sandbox.

#include "lua/vm/vm.h"

#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <c10/util/Exception.h>
#include <oneapi/dnnl/dnnl_common.hpp>

#include "absl/status/status.h"
#include "base/status/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The guard
// -------------------------------------------------------------------------------------------------

// Counts its destructions. A longjmp over it, or an exception without unwinding, would leave it
// alive.
int g_ended = 0;
struct Counted {
  std::string owned = std::string(100, 'x');  // makes a leak visible to sanitizers
  ~Counted() { ++g_ended; }
};

int ThrowRuntime(lua_State*) {
  Counted counted;
  throw std::runtime_error("boom");
}
int ThrowStatus(lua_State*) {
  Counted counted;
  throw base::StatusError(absl::NotFoundError("no such thing"));
}
int ThrowValue(lua_State*) {
  Counted counted;
  TORCH_CHECK_VALUE(false, "expected 3, got ", 4);
}
int ThrowTorch(lua_State*) {
  Counted counted;
  TORCH_CHECK(false, "shapes differ");
}
int ThrowMemory(lua_State*) { throw std::bad_alloc(); }
int ThrowOneDnnMemory(lua_State*) {
  throw dnnl::error(dnnl_out_of_memory, "could not create a primitive");
}
int ThrowOneDnn(lua_State*) {
  throw dnnl::error(dnnl_unimplemented, "could not create a primitive");
}
int RaiseLua(lua_State* L) {
  Counted counted;
  return luaL_error(L, "raised in C");
}
int CallBack(lua_State* L) {
  Counted counted;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

class Guard : public VmTest {
 protected:
  Guard() {
    g_ended = 0;
    Define("runtime", &ThrowRuntime);
    Define("status", &ThrowStatus);
    Define("value", &ThrowValue);
    Define("torch", &ThrowTorch);
    Define("memory", &ThrowMemory);
    Define("onednn_memory", &ThrowOneDnnMemory);
    Define("onednn", &ThrowOneDnn);
    Define("raise", &RaiseLua);
    Define("callback", &CallBack);
  }
};

TEST_F(Guard, KeepsTheTextOfAnException) {
  EXPECT_EQ(Run("\n\nruntime()").message, "script.lua:3: test.runtime: INTERNAL: boom");
  EXPECT_EQ(Run("status()").message, "script.lua:1: test.status: NOT_FOUND: no such thing");
  EXPECT_EQ(Run("memory()").message,
            "script.lua:1: test.memory: RESOURCE_EXHAUSTED: out of memory: no more for data and "
            "libraries");
  EXPECT_EQ(Run("onednn_memory()").message,
            "script.lua:1: test.onednn_memory: RESOURCE_EXHAUSTED: out of memory: no more for data "
            "and libraries");
  EXPECT_EQ(Run("onednn()").message,
            "script.lua:1: test.onednn: INTERNAL: could not create a primitive");
}

TEST_F(Guard, KeepsLibTorchsWordsWithoutItsStack) {
  EXPECT_EQ(Run("value()").message,
            "script.lua:1: test.value: INVALID_ARGUMENT: expected 3, got 4");
  EXPECT_EQ(Run("torch()").message, "script.lua:1: test.torch: INVALID_ARGUMENT: shapes differ");
}

TEST_F(Guard, RunsDestructorsOnTheWay) {
  Run("runtime()");
  EXPECT_EQ(g_ended, 1);
  Run("status()");
  EXPECT_EQ(g_ended, 2);
  Run("value()");
  EXPECT_EQ(g_ended, 3);
  Run("raise()");  // an error of Lua, raised in C
  EXPECT_EQ(g_ended, 4);
  Run("callback(function() error('in Lua') end)");  // an error of Lua, through C
  EXPECT_EQ(g_ended, 5);
  Run("callback(callback, runtime)");  // a C++ exception, through two further calls
  EXPECT_EQ(g_ended, 8);
}

TEST_F(Guard, LetsLuasErrorsPass) {
  EXPECT_EQ(Run(R"lua(
    local mine = setmetatable({}, {})
    local done, raised = pcall(callback, function() error(mine) end)
    assert(not done and raised == mine, "an error object must come back as the same table")
    local _, text = pcall(callback, function() error "words" end)
    assert(text == "script.lua:5: words", text)
    local _, text = pcall(callback, function() error("bare", 0) end)
    assert(text == "bare", text)
  )lua")
                .message,
            "");
  EXPECT_EQ(Run("raise()").message, "script.lua:1: raised in C");
}

TEST_F(Guard, WorksInsidePcallCoroutinesAndLoops) {
  EXPECT_EQ(Run(R"lua(
    local _, text = pcall(status)
    text = tostring(text)
    assert(text == "NOT_FOUND: no such thing"
      or text == "script.lua:2: test.status: NOT_FOUND: no such thing", text)
    local _, text = coroutine.resume(coroutine.create(function() status() end))
    assert(tostring(text) == "script.lua:6: test.status: NOT_FOUND: no such thing", text)
    for i = 1, 2000 do -- enough for the compiler to trace it
      local done, words = pcall(function() runtime() end)
      assert(not done and tostring(words) == "script.lua:9: test.runtime: INTERNAL: boom", words)
    end
    local _, handled = xpcall(function() value() end, function(words) return "seen " .. words end)
    local words = "seen script.lua:12: test.value: INVALID_ARGUMENT: expected 3, got 4"
    assert(handled == words, handled)
  )lua")
                .message,
            "");
}

TEST_F(Guard, SaysTheMessageAloneWhereNoScriptOfTheUsersIsRunning) {
  const std::string path = ::testing::TempDir() + "/own.lua";
  std::ofstream(path) << "status()";
  EXPECT_EQ(vm().Run(path, std::string(kOwnChunk) + "scripts/own", {}).message,
            "NOT_FOUND: no such thing");
}

// Exit codes
// -------------------------------------------------------------------------------------------------

TEST(ExitCodes, AreTheStatusCodesBeforeTheFirstStep) {
  using Code = absl::StatusCode;
  for (const Code known :
       {Code::kInvalidArgument, Code::kNotFound, Code::kFailedPrecondition, Code::kUnimplemented,
        Code::kOutOfRange, Code::kPermissionDenied, Code::kDataLoss}) {
    EXPECT_EQ(ExitCode({.code = known}, /*started=*/false), 2) << static_cast<int>(known);
    EXPECT_EQ(ExitCode({.code = known}, /*started=*/true), 1) << static_cast<int>(known);
  }
  for (const Code later : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kAborted,
                           Code::kAlreadyExists, Code::kInternal, Code::kResourceExhausted}) {
    EXPECT_EQ(ExitCode({.code = later}, /*started=*/false), 1) << static_cast<int>(later);
    EXPECT_EQ(ExitCode({.code = later}, /*started=*/true), 1) << static_cast<int>(later);
  }
  EXPECT_EQ(ExitCode({.message = "INVALID_ARGUMENT: a text"}, false), 1);
  const ErrorValue full = {.code = Code::kResourceExhausted, .out_of_memory = true};
  EXPECT_EQ(ExitCode(full, /*started=*/false), 2);
  EXPECT_EQ(ExitCode(full, /*started=*/true), 1);
}

class Scripts : public VmTest {};

TEST_F(Scripts, EndWithTheCodeOfTheirError) {
  EXPECT_EQ(Run("return 7").exit_code, 0);
  EXPECT_EQ(Run("this is no Lua").exit_code, 2);
  EXPECT_THAT(Run("x = = 1").message, HasSubstr("script.lua:1:"));
  EXPECT_EQ(Run("error('oh')").exit_code, 1);
  EXPECT_EQ(Run("error('INVALID_ARGUMENT: oh', 0)").exit_code, 1);  // a text has no code
  EXPECT_EQ(Run("require 'moonring.base.errors'.fail 'oh'").exit_code, 2);
  EXPECT_EQ(Run("require 'moonring'.system.read '/nowhere'").exit_code, 2);
  EXPECT_EQ(Run("local moonring = require 'moonring' moonring.system.started() "
                "moonring.system.read '/nowhere'")
                .exit_code,
            1);
}

TEST_F(Scripts, MissingOnesAreNamed) {
  const ScriptError error = vm().Run("/nowhere/script.lua", "@script.lua", {});
  EXPECT_EQ(error.exit_code, 2);
  EXPECT_THAT(error.message, HasSubstr("/nowhere/script.lua"));
}

TEST_F(Scripts, HaveTheirArgumentsAndMayBeginForTheShell) {
  EXPECT_EQ(Run("#!/usr/bin/env moonring\nassert(#arg == 2 and arg[1] == 'a=1' and arg[2] == '' "
                "and arg[0]:find 'script.lua$'); assert(... == 'a=1')",
                {"a=1", ""})
                .message,
            "");
}

TEST_F(Scripts, MayRaiseATable) {
  EXPECT_EQ(Run("error {}").message, "the script raised {}");
  EXPECT_EQ(Run("error { 3, 'b', why = 'full', left = { bytes = 0, really = true } }").message,
            "the script raised { 3, \"b\", left = { bytes = 0, really = true }, why = \"full\" }");
  EXPECT_EQ(Run("error { message = 'the disk is full', code = 28 }").message, "the disk is full");
  EXPECT_EQ(Run("local t = {} t.t = t error(t)").message,
            "the script raised { t = { t = { t = { ... } } } }");
  EXPECT_EQ(Run("local t = {} for i = 1, 1000 do t[i] = i end error(t)").message,
            "the script raised { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... }");
  EXPECT_THAT(Run("error { function() end, ('x'):rep(1e6) }").message,
              AllOf(StartsWith("the script raised { a function, \"xxx"), HasSubstr("xxx...\" }")));
  // An error object whose __tostring fails is reported by its fields.
  EXPECT_EQ(Run("error(setmetatable({ code = 3 }, { __tostring = function() error 'again' end }))")
                .message,
            "the script raised { code = 3 }");
  EXPECT_EQ(Run("error(setmetatable({}, { __tostring = function() return 'NOT_FOUND: mine' end }))")
                .message,
            "NOT_FOUND: mine");
  EXPECT_EQ(Run("error()").message, "the script raised nil");
}

TEST_F(Scripts, SayWhereAnErrorCameFrom) {
  ScriptError error = Run(R"lua(
    local function loss(x)
      return x.sum
    end
    local function step()
      local sum = loss(nil)
      return sum
    end
    step()
  )lua");
  EXPECT_EQ(error.message, "script.lua:3: attempt to index local 'x' (a nil value)");
  EXPECT_EQ(error.traceback,
            "\n  script.lua:3: in function 'loss'\n  script.lua:6: in function 'step'\n  "
            "script.lua:9: in main chunk");
  // Moonring's own functions are omitted from the stack, like C functions.
  error =
      Run("local tensor = require 'moonring'\ntensor.scope(function()\n  error { code = 3 }\nend)");
  EXPECT_EQ(error.message, "the script raised { code = 3 }");
  EXPECT_EQ(error.traceback,
            "\n  script.lua:3: in the function of line 2\n  script.lua:2: in main chunk");
  // There is no stack if the message is sufficient, or if the error is not the script's fault.
  EXPECT_EQ(Run("error 'oh'").traceback, "");
  EXPECT_EQ(Run("local moonring = require 'moonring'\nlocal opt = moonring.flags { model = "
                "moonring.required }")
                .traceback,
            "");
  EXPECT_EQ(
      Run("local function check() require 'moonring'.config.fail('lr: expected a number') end "
          "check()")
          .traceback,
      "");
  EXPECT_EQ(Run("local function later() require 'moonring.base.errors'.raise('ABORTED', 'no "
                "number') end\n"
                "later() return 1")
                .traceback,
            "\n  script.lua:1: in function 'later'\n  script.lua:2: in main chunk");
  EXPECT_EQ(Run("local function f(n) if n == 0 then error 'deep' end f(n - 1) return n end f(100)")
                .traceback.substr(0, 64),
            "\n  script.lua:1: in function 'f'\n  script.lua:1: in function 'f'");
}

TEST_F(Scripts, SayWhereAnErrorCameFromToWhoeverReports) {
  std::string reported;
  host().report = [&](const ScriptError& error) { reported = error.message + error.traceback; };
  Run("local function f() error 'oh' end\nf() return 1");
  EXPECT_EQ(reported,
            "script.lua:1: oh\n  script.lua:1: in function 'f'\n  script.lua:2: in main chunk");
  const std::string path = ::testing::TempDir() + "/own.lua";
  std::ofstream(path) << "local function f() require 'moonring.base.errors'.fail 'oh' end\nf() "
                         "return 1";
  vm().Run(path, std::string(kOwnChunk) + "scripts/own", {});
  EXPECT_EQ(reported, "INVALID_ARGUMENT: oh");  // an error of Moonring has no stack
}

// Bound functions
// ----------------------------------------------------------------------------------

int CountAll(lua_State* L) { return lua_pushnumber(L, lua_gettop(L)), 1; }

class BoundFunctions : public VmTest {
 protected:
  struct Counter {
    int count = 3;
  };
  BoundFunctions() {
    Class<Counter>::Register(
        vm().state(), "Counter",
        {{"get", Bind<[](Counter& counter) { return counter.count; }>},
         {"raw", BindRaw<&CountAll, 2>},
         {"add", Bind<[](Counter& counter, int by, std::optional<std::string> why) {
            return counter.count += by;
          }>}});
    Define("counter", Bind<[] { return std::make_shared<Counter>(); }>);
    Define("state_alone", Bind<[](lua_State*) { return 1; }>);
    Define("options", Bind<[](Options options) { options.Finish(); }>);
    Define("mixed", Bind<[](lua_State*, int64_t, double, bool, std::vector<double>,
                            std::shared_ptr<Counter>) { return 1; }>);
    Define("any", BindRaw<&CountAll, kAnyNumber>);
  }
};

TEST_F(BoundFunctions, RefuseMoreArgumentsThanTheyTake) {
  const std::string place = "script.lua:1: ";
  EXPECT_EQ(Run("counter():get(1)").message,
            place + "Counter:get: INVALID_ARGUMENT: expected no arguments, got 1 argument");
  EXPECT_EQ(Run("counter():add(1, 'x', 2)").message,
            place + "Counter:add: INVALID_ARGUMENT: expected (integer, string?), got 3 arguments");
  EXPECT_EQ(Run("counter():raw(1, 2)").message,
            place + "Counter:raw: INVALID_ARGUMENT: expected at most 1, got 2 arguments");
  EXPECT_EQ(Run("counter():close(true)").message,
            place + "Counter:close: INVALID_ARGUMENT: expected no arguments, got 1 argument");
  EXPECT_EQ(Run("state_alone(1)").message,
            place + "test.state_alone: INVALID_ARGUMENT: expected no arguments, got 1 argument");
  EXPECT_EQ(Run("options({}, {})").message,
            place + "test.options: INVALID_ARGUMENT: expected (table), got 2 arguments");
  EXPECT_EQ(
      Run("mixed(1, 2, true, {}, counter(), 6)").message,
      place +
          "test.mixed: INVALID_ARGUMENT: expected (integer, number, boolean, table, Counter), "
          "got 6 arguments");
  EXPECT_EQ(Run("any(1, 2, 3, nil, 5)").message, "");
  EXPECT_EQ(
      Run("assert(counter():add(1) == 4 and counter():add(1, 'x') == 4 and counter():raw(1) == 2)")
          .message,
      "");
}

TEST_F(BoundFunctions, TakeANilAtTheEndForNoArgument) {
  EXPECT_EQ(Run("assert(counter():get(nil, nil) == 3 and counter():add(1, nil, nil) == 4) "
                "counter():close(nil)")
                .message,
            "");
  EXPECT_THAT(Run("counter():get(nil, 1)").message,
              HasSubstr("expected no arguments, got 2 arguments"));
}

TEST_F(BoundFunctions, AreNamedWhereNoScriptOfTheUsersIsRunning) {
  const std::string path = ::testing::TempDir() + "/own.lua";
  std::ofstream(path) << "counter():get(1)";
  EXPECT_EQ(vm().Run(path, std::string(kOwnChunk) + "scripts/own", {}).message,
            "INVALID_ARGUMENT: Counter:get: expected no arguments, got 1 argument");
}

// No function of any library or class silently accepts ten arguments.
TEST_F(Scripts, FindNoFunctionThatIgnoresArguments) {
  EXPECT_EQ(Run(R"lua(
    require "moonring"
    local takes_any = { scope = true, no_grad = true, with_grad = true,
      evaluate = true }
    local one = coroutine.create(function() end) -- of a type that no function takes
    local count = 0
    local function refuses(name, f)
      count = count + 1
      local done, why = pcall(f, one, one, one, one, one, one, one, one, one, one)
      assert(not done and why:find "expected .*, got %d+ arguments", name .. ": " .. tostring(why))
    end
    for module, functions in pairs(package.loaded) do
      if module:find "^moonring%.native%." then
        for name, f in pairs(functions) do
          local is_bound = type(f) == "function" and debug.getinfo(f, "S").what == "C"
          if is_bound and not takes_any[name] then refuses(module .. "." .. name, f) end
        end
      end
    end
    for class, members in pairs(debug.getregistry()["moonring.classes"]) do
      for name, f in pairs(members) do
        if type(f) == "function" and not name:find "^__" then refuses(class .. ":" .. name, f) end
      end
    end
    assert(count > 250, count)
  )lua")
                .message,
            "");
}

TEST_F(Scripts, CloseWhatTheyOpenedLastFirstAndSayWhy) {
  std::vector<std::string> closed;
  host().closers.push_back(
      [&](const ScriptError& error) { closed.push_back("first " + error.message); });
  host().closers.push_back(
      [&](const ScriptError& error) { closed.push_back("second " + error.message); });
  Run("error('why', 0)");
  EXPECT_THAT(closed, ElementsAre("second why", "first why"));
  Run("");
  EXPECT_EQ(closed.size(), 2) << "each is closed once";
}

TEST_F(Scripts, FindMoonringsModules) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    assert(moonring == require "moonring" and moonring.config == require "moonring.config"
      and moonring.version)
    assert(rawget(_G, "moonring") == nil, "nothing is global")
    local done, text = pcall(require, "moonring.nothing")
    assert(not done and text:find("no module 'moonring.nothing' among Moonring's own", 1, true),
      text)
  )lua")
                .message,
            "");
}

TEST_F(Scripts, NothingIsGlobalButLuasOwn) {
  EXPECT_EQ(
      Run("local before = {} for name in pairs(_G) do before[name] = true end require 'moonring' "
          "for name in pairs(_G) do assert(before[name], name .. ' is a new global') end")
          .message,
      "");
}

// Options
// -------------------------------------------------------------------------------------------------

struct Thing {
  int value = 0;
};

class OptionTables : public VmTest {
 protected:
  OptionTables() {
    lua_State* L = vm().state();
    Class<Thing>::Register(L, "Thing", {{"value", Bind<[](Thing& thing) { return thing.value; }>}});
    Define("thing", Bind<[] { return std::make_shared<Thing>(Thing{7}); }>);
    Define("use", Bind<[](Options options) {
             const auto steps = options.Require<int64_t>("total_steps");
             const auto rate = options.Get<double>("rate", 0.5);
             const auto name = options.Get<std::string>("name", "none");
             const auto quick = options.Get<bool>("quick", false);
             const auto small = options.Get<int>("small", 1);
             const auto names = options.Get<std::vector<std::string>>("names", {});
             const auto object = options.Find<std::shared_ptr<Thing>>("object");
             options.Finish();
             return std::make_tuple(
                 steps, rate, name, quick,
                 small + static_cast<int>(names.size()) + (object ? (*object)->value : 0));
           }>);
  }
  std::string ErrorOf(const std::string& table) {
    const std::string message = Run("use(" + table + ")").message;
    const std::string place = "script.lua:1: test.use: INVALID_ARGUMENT: ";
    EXPECT_THAT(message, StartsWith(place));
    return message.substr(std::min(place.size(), message.size()));
  }
};

TEST_F(OptionTables, GiveTheirValuesAndDefaults) {
  EXPECT_EQ(Run(R"lua(
    local steps, rate, name, quick, sum = use { total_steps = 3 }
    assert(steps == 3 and rate == 0.5 and name == "none" and quick == false and sum == 1)
    steps, rate, name, quick, sum = use { total_steps = -2^40, rate = 2, name = "n", )lua"
                R"lua(quick = true, small = 2, names = { "a", "b" }, object = thing() }
    assert(steps == -2^40 and rate == 2 and name == "n" and quick == true and sum == 11)
  )lua")
                .message,
            "");
}

TEST_F(OptionTables, RefuseAnUnknownKeyWithTheNearest) {
  EXPECT_THAT(ErrorOf("{ total_steps = 1, raet = 1 }"),
              StartsWith("unknown option 'raet' (did you mean 'rate'?); known: total_steps, rate"));
  EXPECT_THAT(ErrorOf("{ total_steps = 1, zzzzzz = 1 }"),
              StartsWith("unknown option 'zzzzzz'; known: "));
  EXPECT_THAT(ErrorOf("{ total_steps = 1, 5 }"), StartsWith("unknown option '1'"));
}

TEST_F(OptionTables, SayWhichKeyIsMissingAndWhatIsNearIt) {
  EXPECT_EQ(ErrorOf("{}"), "option 'total_steps' is missing");
  EXPECT_EQ(ErrorOf(""), "option 'total_steps' is missing");
  EXPECT_EQ(ErrorOf("{ total_step = 1, name = 'x' }"),
            "option 'total_steps' is missing; there is 'total_step'");
}

TEST_F(OptionTables, SayWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(ErrorOf("{ total_steps = '3' }"),
            "option 'total_steps': expected a number, got a string");
  EXPECT_EQ(ErrorOf("{ total_steps = 1.5 }"), "option 'total_steps': expected an integer, got 1.5");
  EXPECT_EQ(ErrorOf("{ total_steps = 0/0 }"), "option 'total_steps': expected an integer, got nan");
  EXPECT_EQ(ErrorOf("{ total_steps = 1, small = 2^31 }"),
            "option 'small': expected an integer in range, got 2147483648");
  EXPECT_EQ(ErrorOf("{ total_steps = 1, quick = 1 }"),
            "option 'quick': expected a boolean, got a number");
  EXPECT_EQ(ErrorOf("{ total_steps = 1, names = 'a' }"),
            "option 'names': expected a table, got a string");
  EXPECT_EQ(ErrorOf("{ total_steps = 1, object = {} }"),
            "option 'object': expected a Thing, got table");
  EXPECT_EQ(ErrorOf("{ total_steps = 1, object = require 'moonring'.tensor { 1, 2 } }"),
            "option 'object': expected a Thing, got tensor([1., 2.])");
  EXPECT_EQ(
      ErrorOf(
          "(function() local t = thing() t:close() return { total_steps = 1, object = t } end)()"),
      "option 'object': expected a Thing, got Thing (closed)");
}

// Arguments and handles
// -------------------------------------------------------------------------------------------------

class Handles : public VmTest {
 protected:
  struct Live {
    Live() { ++count; }
    ~Live() { --count; }
    static inline int count = 0;
  };
  Handles() {
    Class<Live>::Register(vm().state(), "Live",
                          {{"ping", Bind<[](Live&) { return 1; }>},
                           {"__tostring", Bind<[](Live&) { return std::string("Live one"); }>}});
    Class<Thing>::Register(vm().state(), "Thing",
                           {{"value", Bind<[](Thing& thing) { return thing.value; }>}});
    Define("live", Bind<[] { return std::make_shared<Live>(); }>);
    Define("none", Bind<[] { return std::shared_ptr<Live>(); }>);
    Define("thing", Bind<[] { return std::make_shared<Thing>(); }>);
    Define("narrow", Bind<[](int32_t n) { return n; }>);
    Define("count", Bind<[] { return Live::count; }>);
  }
};

TEST_F(Handles, AreFreedOnceWhenClosedAndRefuseUse) {
  EXPECT_EQ(Run(R"lua(
    local x = live()
    assert(count() == 1 and x:ping() == 1 and tostring(x) == "Live one")
    x:close()
    assert(count() == 0, "close lets go at once")
    x:close()
    assert(tostring(x) == "Live (closed)")
    local done, text = pcall(x.ping, x)
    assert(not done and text:find("this Live is closed", 1, true), text)
  )lua")
                .message,
            "");
}

TEST_F(Handles, AreCollectedAndNilWhereThereIsNothing) {
  EXPECT_EQ(Run("for i = 1, 10 do live() end collectgarbage() assert(count() == 0); assert(none() "
                "== nil)")
                .message,
            "");
}

TEST_F(Handles, OfAnotherClassAreRefused) {
  EXPECT_EQ(Run(R"lua(
    for _, other in ipairs { thing(), {}, 1, "x", io.stdout } do
      local done, text = pcall(live().ping, other)
      assert(not done and text:find("expected a Live", 1, true), text)
      local done, text = pcall(live().close, other)
      assert(not done and text:find("expected a Live", 1, true), text)
    end
    assert(not pcall(live().ping))
  )lua")
                .message,
            "");
}

TEST_F(Handles, SurviveTheirFinalizerBeingCalled) {  // a script can call it
  EXPECT_EQ(Run("local x = live() local gc = getmetatable(x).__gc gc(x) gc(x) gc {} gc() "
                "assert(count() == 0); assert(not pcall(x.ping, x))")
                .message,
            "");
}

TEST_F(Handles, IntegersAreChecked) {
  EXPECT_EQ(Run(R"lua(
    assert(narrow(-2^31) == -2^31)
    for _, bad in ipairs { 2^31, -2^31 - 1, 0.5, 0/0, 1/0 } do assert(not pcall(narrow, bad),
      bad) end
  )lua")
                .message,
            "");
}

// The sandbox
// -------------------------------------------------------------------------------------------------

class Sandbox : public VmTest {
 protected:
  Sandbox() { host().sandbox = true; }
};

TEST_F(Sandbox, HasLuaAndMoonring) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    assert(moonring.scope(function() return (moonring.tensor { 1, 2 } * 2):sum():item() end) == 6)
    assert(("x"):rep(3) == "xxx" and math.floor(1.5) == 1 and os.time() > 0 and #arg == 1
      and arg[1] == "k=2")
    assert(moonring.flags({ k = 1 }).k == 2 and require "moonring.config" == moonring.config)
    assert(load("return 1 + ...")(2) == 3 and loadstring("return _G")() == _G)
    assert(moonring.system.json_encode { a = 1 } == '{"a":1}')
    assert(pcall(error) == false and select("#", moonring.comm.mesh {}:traffic()) == 2)
  )lua",
                {"k=2"})
                .message,
            "");
}

TEST_F(Sandbox, LacksWhatReachesTheMachine) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    for _, name in ipairs { "io", "debug", "package", "jit", "ffi", "dofile", "loadfile", "setfenv",
      "getfenv", "module", "newproxy" } do
      assert(not rawget(_G, name), name)
    end
    for _, name in ipairs { "execute", "remove", "rename", "exit", "getenv", "tmpname",
      "setlocale" } do assert(not rawget(os, name), name) end
    for _, name in ipairs { "read", "write", "make_folder", "list", "environment",
      "launch" } do assert(not rawget(moonring.system, name), name) end
    for _, name in ipairs { "io", "os", "ffi", "jit", "jit.util", "debug", "package",
      "string.buffer", "moonring.native.system", "moonring.sandbox", "moonring.x/../y" } do
      local done, text = pcall(require, name)
      assert(not done and text:find "^PERMISSION_DENIED: %-%-sandbox", tostring(name) .. ": "
        .. tostring(text))
    end
    assert(not rawget(string, "dump") and not getmetatable(""))
  )lua")
                .message,
            "");
}

TEST_F(Sandbox, SaysWhatIsMissing) {
  const ScriptError error = Run("io.open 'x'");
  EXPECT_EQ(error.message, "PERMISSION_DENIED: --sandbox: there is no io");
  EXPECT_EQ(error.exit_code, 2);
  EXPECT_EQ(Run("os.execute 'true'").message,
            "PERMISSION_DENIED: --sandbox: there is no os.execute");
  EXPECT_EQ(Run("require 'moonring'.system.read 'x'").message,
            "PERMISSION_DENIED: --sandbox: there is no moonring.system.read");
}

TEST_F(Sandbox, TakesNoBytecode) {
  // LuaJIT does not verify bytecode, which can read and write any memory, so bytecode is rejected.
  EXPECT_EQ(Run(R"lua(
    local f, text = load("\27LJ\2\0")
    assert(f == nil and text:find "attempt to load", text)
    f, text = loadstring("\27LJ\2\0", "x", "b")
    assert(f == nil and text:find "attempt to load", text)
  )lua")
                .message,
            "");
  EXPECT_THAT(Run("\x1bLJ").message, HasSubstr("attempt to load"));
}

TEST_F(Sandbox, IsNotLeftThroughAnEnvironmentOrAMetatable) {
  EXPECT_EQ(Run(R"lua(
    leak = 1 -- a global of the script's, not of the host's
    string.format = nil
    assert(("%d"):format(3) == "3", "the host's string functions are its own")
    getmetatable(_G) -- hidden
    assert(getmetatable(_G) == false and not pcall(setmetatable, _G, {}))
  )lua")
                .message,
            "");
  lua_getglobal(vm().state(), "leak");
  EXPECT_TRUE(lua_isnil(vm().state(), -1));
  lua_pop(vm().state(), 1);
}

TEST_F(Sandbox, IsNotForMoonringsOwnScripts) {
  const std::string path = ::testing::TempDir() + "/own.lua";
  std::ofstream(path) << "assert(io.stderr and require 'moonring'.system.read)";
  EXPECT_EQ(vm().Run(path, std::string(kOwnChunk) + "scripts/own", {}).message, "");
}

}  // namespace
}  // namespace moonring::lua
