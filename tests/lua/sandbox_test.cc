// Scripts that try to escape the sandbox; all attempts must fail. (vm_test.cc tests what a
// sandboxed script can do.)

#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/vm/vm.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Confined : public VmTest {
 protected:
  Confined() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    host().sandbox = true;
    host().limits.confinement = *ConfineTo({.roots = {root_.string()}}, host().assets);
  }
  // Runs `text` after the definition of `refused(words, f, ...)`, which checks that f fails with an
  // error that says that it is not permitted or not possible.
  ScriptError Try(const std::string& text) {
    return Run(absl::StrCat("local ROOT = '", root_.string(), "' ", kRefused, text));
  }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void WriteModel() {
    fs::copy("tests/golden/model/gqa_tied", root_ / "model", fs::copy_options::recursive);
    fs::copy_file("tests/golden/tokenizer/tiny/smollm2.tokenizer.json",
                  root_ / "model/tokenizer.json");
  }
  static constexpr char kRefused[] = R"lua(
    local moonring = require "moonring"
    local function refused(words, f, ...)
      local done, why = pcall(f, ...)
      if done or not tostring(why):find(words, 1, true) then
        error(debug_name(words, done, why), 2)
      end
    end
    function debug_name(words, done, why) return "expected '" .. words .. "', got "
      .. (done and "no error" or tostring(why)) end
    local OUT = "is outside of the roots"
  )lua";
  const fs::path root_ = fs::path(::testing::TempDir()) / "sandbox_root";
};

// Files
// -------------------------------------------------------------------------------------------------

TEST_F(Confined, EveryFunctionThatTakesAPathAsksForTheRoots) {
  WriteModel();
  Write("dataset_info.json", R"({"own": {"file_name": "own.json"}})");
  Write("own.json",
        R"([{"instruction": "a", "output": "b"}, {"instruction": "c", "output": "d"}])");
  EXPECT_EQ(Try(R"lua(
    local PASSWD, ETC = "/etc/passwd", "/etc"
    local mesh = moonring.comm.mesh {}
    local checkpoint = moonring.model.open(ROOT .. "/model")
    local model = moonring.model.load(checkpoint)
    local head = model:value_head()
    local tokenizer = moonring.data.tokenizer(checkpoint)
    local function options(more)
      local all = { names = { "own" }, dir = ROOT, template = "empty", tokenizer = tokenizer }
      for name, value in pairs(more or {}) do all[name] = value end
      return all
    end
    local dataset = moonring.data.load(options())
    local log = moonring.trainer.log { dir = ROOT, total_steps = 1 }
    log:write { step = 1, epoch = 1, loss = 1, tokens = 1 }
    -- Every function and method of the bindings that takes a path. A new one belongs here.
    refused(OUT, moonring.model.open, ETC)
    refused(OUT, moonring.model.open, "/nowhere/at/all") -- nor is it informed of what is there
    refused(OUT, moonring.model.open_config, PASSWD)
    refused(OUT, moonring.model.open_config, "/nowhere/config.json")
    refused(OUT, moonring.model.load, checkpoint, { adapters = { ETC } })
    refused(OUT, moonring.model.adapt, model, { path = ETC })
    refused("", moonring.model.load, checkpoint,
      { activation_offload = "disk", activation_dir = "/tmp" })
    refused(OUT, model.save, model, "/tmp/model")
    refused(OUT, model.save_gradients, model, "/tmp/gradients.safetensors")
    refused(OUT, head.save, head, "/tmp/head")
    refused(OUT, moonring.data.load, options { dir = ETC })
    refused(OUT, moonring.data.load, options { dir = "/nowhere" })
    refused(OUT, moonring.data.stream, options { dir = ETC })
    refused(OUT, moonring.data.load, options { template = "/etc/template.lua" })
    refused(OUT, moonring.data.load_tokenized, { path = ETC, tokenizer = tokenizer })
    refused(OUT, moonring.data.save_tokenized, "/tmp/tokenized", { train = dataset }, "sft")
    assert(moonring.data.has_tokenized(ETC) == false)
    refused(OUT, dataset.write, dataset, "/tmp/written.jsonl")
    refused(OUT, moonring.safetensors.read, PASSWD)
    refused(OUT, moonring.safetensors.write, "/tmp/x.safetensors", { x = moonring.tensor { 1 } })
    refused(OUT, moonring.trainer.log, { dir = "/tmp", total_steps = 1 })
    refused(OUT, log.plot, log, "loss", "/tmp/plot.png", "title")
    refused(OUT, log.state, log, "/tmp")
    refused(OUT, log.results, log, "../../tmp/x", { a = 1 })
    refused(OUT, moonring.trainer.heat_map, "/tmp/map.png",
      { shares = { { 1 } }, rows = { "a" }, columns = { "b" } })
    refused(OUT, moonring.trainer.check_checkpoint, ETC)
    refused(OUT, function() moonring.trainer.publish_checkpoint { draft = ETC, folder = "/tmp/x",
      names = {}, step = 1 }:wait() end)
    refused("PERMISSION_DENIED", moonring.trainer.zero,
      { mesh = mesh, stage = 1, offload = "disk", folder = "/tmp" })
    -- What its modules take on from there.
    refused(OUT, moonring.config.load, PASSWD, {})
    refused(OUT, require("moonring.data.templates").find, "/etc/mine.lua")
    refused(OUT, require("moonring.run.checkpoint.checkpoints").new,
            { dir = "/tmp", mesh = mesh, save = print, say = print })
    refused(OUT, require("moonring.run.kept_reference").open,
      { path = PASSWD, key = {}, dataset = dataset, mesh = mesh })
  )lua")
                .message,
            "");
}

TEST_F(Confined, NamesInsideOfFilesLeadNowhere) {
  WriteModel();
  Write("dataset_info.json",
        R"({"up": {"file_name": "../../../../../../../../etc/passwd.json"}, )"
        R"("absolute": {"file_name": "/etc/x.json"},
                                 "folder": {"file_name": "/etc"}, )"
        R"("link": {"file_name": "link.json"}, "linked_folder": {"file_name": "linked"}})");
  fs::create_symlink("/etc/passwd", root_ / "link.json");
  fs::create_symlink("/etc", root_ / "linked");
  Write("indexed/config.json", "{}");
  fs::copy_file(root_ / "model/config.json", root_ / "indexed/config.json",
                fs::copy_options::overwrite_existing);
  Write("indexed/model.safetensors.index.json",
        R"({"weight_map": {"model.embed_tokens.weight": "../../../../../../../etc/passwd"}})");
  fs::create_directories(root_ / "linked_model");
  fs::create_symlink("/etc/passwd", root_ / "linked_model/config.json");
  Write("mine.yaml",
        "model_name_or_path: /etc\nstage: sft\ndo_train: true\ndataset: own\ntemplate: "
        "empty\noutput_dir: /tmp/out\n");
  Write("tokenized/dataset_dict.json", R"({"splits": ["train", "../../../../../etc"]})");
  EXPECT_EQ(Try(R"lua(
    local tokenizer = moonring.data.tokenizer(moonring.model.open(ROOT .. "/model"))
    for _, name in ipairs { "up", "absolute", "folder", "link", "linked_folder" } do
      local options = { names = { name }, dir = ROOT, template = "empty", tokenizer = tokenizer }
      refused(OUT, moonring.data.load, options)
      refused(OUT, function() moonring.data.stream(options):whole(1) end)
    end
    refused("", moonring.model.open, ROOT .. "/indexed")
    refused(OUT, moonring.model.open, ROOT .. "/linked_model")
    refused(OUT, moonring.model.open, ROOT .. "/linked")
    refused("", moonring.data.load_tokenized,
      { path = ROOT .. "/tokenized", tokenizer = tokenizer })
    local config = moonring.config.load(ROOT .. "/mine.yaml", {})
    refused(OUT, moonring.policy.open, config)
    config.resume_from_checkpoint, config.activation_offload, )lua"
                R"lua(config.activation_dir = "/etc", "disk", "/tmp"
    refused(OUT, require("moonring.run.checkpoint.resume").find, config, moonring.comm.mesh {})
    refused(OUT, require("moonring.run.checks").train, config)
  )lua")
                .message,
            "");
  EXPECT_FALSE(fs::exists("/tmp/out"));
}

TEST_F(Confined, ThatIsSaidWithTheExitCodeOfAConfiguration) {
  const ScriptError error = Run("require 'moonring'.model.open '/etc/passwd'");
  EXPECT_EQ(error.message, absl::StrCat("script.lua:1: moonring.model.open: PERMISSION_DENIED: "
                                        "--sandbox: /etc/passwd is outside of the roots (",
                                        root_.string(), ")"));
  EXPECT_EQ(error.exit_code, 2);
}

TEST_F(Confined, MoonringsOwnFilesAreThere) {
  EXPECT_EQ(Try(R"lua(
    assert(#require("moonring.data.templates").names() > 100)
    assert(require("moonring.commands.help").text "train":find "learning_rate")
    assert(require("moonring.base.machine").host_memory().total > 0)
  )lua")
                .message,
            "");
}

// The language
// -------------------------------------------------------------------------------------------------

TEST_F(Confined, NothingLeadsToTheHostsOwnLua) {
  EXPECT_EQ(Try(R"lua(
    local tensor = moonring.tensor { 1 }
    -- Handles and their classes.
    assert(getmetatable(tensor) == false and tensor.__index == nil and tensor.__gc == nil
      and tensor.__metatable == nil and tensor.__name == nil)
    assert(tensor.close and not pcall(function() tensor.close = 1 end)
      and not pcall(setmetatable, tensor, {}))
    assert(getmetatable(moonring.comm.mesh {}) == false and getmetatable(moonring.null) == false)
    -- Strings share functions with the host.
    assert(getmetatable "" == false and ("").dump == nil and string.dump == nil)
    string.rep = nil
    assert(("x"):rep(2) == "xx")
    -- Functions and their environments.
    assert(not rawget(_G, "getfenv") and not rawget(_G, "setfenv") and not rawget(_G, "debug"))
    for _, name in ipairs { "newproxy", "module", "dofile", "loadfile", "jit", "ffi", "package",
      "io", "gcinfo" } do assert(rawget(_G, name) == nil, name) end
    assert(load "return io and os.execute" and not pcall(load "return io"))
    assert(not pcall(load("return io", "=moonring/config"))) -- a chunk's name is no rank
    assert(load("return _G.os.execute", "x", "t", { _G = {  os = {} } })() == nil)
    refused("attempt to load", function() assert(load("\27LJ\2\0\0", "x", "b")) end)
    refused("attempt to load", function() assert(loadstring "\27LJ\2\0\0") end)
    refused("attempt to load", function() local once = true assert(
      load(function() if once then once = false return "\27LJ\2\0\0" end end)) end)
    -- Coroutines, handlers and error objects.
    assert(coroutine.wrap(function() return rawget(_G, "io") end)() == nil)
    local seen
    xpcall(function() error(setmetatable({}, { __tostring = function() return "mine" end })) end,
      function(why) seen = why end)
    assert(tostring(seen) == "mine")
    assert(select(2, xpcall(function(a) return a end, print, 7)) == 7)
    refused("no collectgarbage 'stop'", collectgarbage, "stop")
    refused("no collectgarbage 'setpause'", collectgarbage, "setpause", 1e9)
    assert(collectgarbage "count" > 0 and collectgarbage() == 0)
    -- Modules.
    for _, name in ipairs { "ffi", "jit", "jit.opt", "bit.", "debug", "os",
      "moonring.native.system", "moonring.sandbox",
        "moonring.sandbox.init", "moonring.sandbox.outlet", "moonring.sandbox.patterns",
          "moonring.nothing", "../x", "moonring.../x", 1, {} } do
      refused("PERMISSION_DENIED", require, name)
    end
    refused("PERMISSION_DENIED", function() return moonring.system.read end)
    refused("PERMISSION_DENIED", function() return moonring.system.environment end)
    refused("PERMISSION_DENIED", function() return moonring.system.say end)
    assert(require "moonring" == moonring)
    -- Ranks, processes, signals.
    refused("a script starts no ranks", moonring.launch, 2)
    local theirs = { "launch", "catch_preemption", "release_preemption", "end_as_preempted" }
    for _, name in ipairs(theirs) do
      refused("PERMISSION_DENIED", function() return moonring.system[name] end)
    end
  )lua")
                .message,
            "");
}

TEST_F(Confined, TheHostItselfHasLostWhatLeadsToTheMachine) {
  const std::string path = ::testing::TempDir() + "/own.lua";
  std::ofstream(path) << R"lua(
    for _, name in ipairs { "debug", "jit", "ffi", "newproxy", "module", "loadfile", "dofile",
      "setfenv", "getfenv", "loadstring" } do assert(_G[name] == nil, name) end
    for _, name in ipairs { "open", "popen", "lines", "tmpfile", "input", "output" } do assert(
      io[name] == nil, name) end
    for _, name in ipairs { "execute", "remove", "rename", "exit", "getenv", "tmpname",
      "setlocale" } do assert(os[name] == nil, name) end
    for _, name in ipairs { "ffi", "jit.opt", "jit.util", "jit.profile", "string.buffer",
      "table.new", "debug", "none" } do assert(not pcall(require, name), name) end
    assert(io.stderr and io.write and os.time() > 0 and string.dump == nil and require "moonring")
    local system = require "moonring.native.system"
    assert(system.environment "PATH" == nil and system.environment "HOME" == nil)
    assert(not pcall(system.read, "/etc/passwd") and not pcall(system.list, "/etc")
      and not pcall(system.exists, "/etc/passwd"))
  )lua";
  EXPECT_EQ(vm().Run(path, std::string(kOwnChunk) + "scripts/own", {}).message, "");
}

// Limits
// -------------------------------------------------------------------------------------------------

class FewInstructions : public Confined {
 protected:
  FewInstructions() { host().limits.instructions = 200'000; }
};

// Loops that would run forever, or for hours, are ended by the limit of instructions.
TEST_F(FewInstructions, EveryLoopEnds) {
  for (const char* script : {
           "while true do end",
           "local function f() return f() end f()",
           "while true do pcall(function() while true do end end) end",
           "local function again() while true do pcall(again) end end again()",
           "local function again() while true do coroutine.resume(coroutine.create(again)) "
           "pcall(again) end end again()",
           "local function again() while true do load(function() again() end) end end again()",
           "local function again() while true do xpcall(again, again) end end again()",
           "local m = require 'moonring' local function again() while true do pcall(m.scope, "
           "again) m.run.check_attention(setmetatable({}, { __index = again })) end end again()",
           "while true do xpcall(function() while true do end end, function() while true do end "
           "end) end",
           "coroutine.wrap(function() while true do end end)()",
           "while true do coroutine.resume(coroutine.create(function() while true do pcall(error) "
           "end end)) end",
           "while true do select(2, pcall(coroutine.wrap(function() while true do "
           "coroutine.yield() end end))) end",
           "local t = setmetatable({}, { __index = function(t, k) while true do end end }) while "
           "true do pcall(function() return t.x end) end",
           "while true do pcall(string.gsub, ('x'):rep(100), 'x', function() while true do end "
           "end) end",
           "while true do pcall(table.sort, { 3, 2, 1 }, function() while true do end end) end",
           "while true do pcall(load, function() while true do end end) end",
           "while true do pcall(error, setmetatable({}, { __tostring = function() while true do "
           "end end })) end",
           "error(setmetatable({}, { __tostring = function() while true do end end }))",
           "local m = require 'moonring' while true do pcall(m.scope, function() while true do end "
           "end) end",
           "local m = require 'moonring' while true do pcall(m.no_grad, function() while true do "
           "end end) end",
           "for i = 1, 1e9 do require 'moonring'.tensor { 1 } end",
           "string.find(('a'):rep(1e4), '.-.-.-.-.-b')",
           "return (('a'):rep(40)):match(('a?'):rep(40) .. ('a'):rep(40))",
           "for _ in ('a'):rep(1e4):gmatch '.*.*.*b' do end",
           "('('):rep(1e5):gsub('%b()', '')",
           "('a'):rep(1e4):gsub('(.*)(.*)%1%2b', {})",
           "return ('x'):rep(1e6):find(('.'):rep(1e6) .. 'b')",
           "return ('a'):rep(1e5):gsub('[' .. ('b'):rep(1e6) .. ']', '')",
           "while true do require 'moonring'.system.did_you_mean(('a'):rep(2e5), { ('b'):rep(2e5) "
           "}) end",
           "local t = {} for i = 1, 1e5 do t[i] = i % 1000 end table.sort(t)",
       }) {
    const ScriptError error = Run(script);
    EXPECT_NE(error.exit_code, 0) << script;
    if (!absl::StartsWith(script,
                          "error(")) {  // which ends by itself, with words that take too long
      EXPECT_THAT(
          error.message,
          HasSubstr("RESOURCE_EXHAUSTED: --sandbox-instructions: the script took more than 200000"))
          << script;
    }
  }
  EXPECT_EQ(Run("local n = 0 for i = 1, 1e4 do n = n + i end assert(n == 50005000)").message,
            "");  // each run counts from zero
}

// An object whose handle is closed while it is in use, by a callback or by a metamethod of an
// options table, stays alive until the call ends.
TEST_F(Confined, WhatIsClosedInUseLivesOn) {
  WriteModel();
  EXPECT_EQ(Try(R"lua(
    local checkpoint = moonring.model.open(ROOT .. "/model")
    local function load() return moonring.model.load(checkpoint) end
    local function closing(...)
      local handles = { ... }
      return setmetatable({}, { __index = function()
        for _, handle in ipairs(handles) do handle:close() end
        collectgarbage()
        for i = 1, 200 do local _ = moonring.tensor { i, 2, 3, 4 } end
      end })
    end
    local model = load()
    assert(#model:generate({ 1, 2 }, { max_new_tokens = 5 }, function() model:close() end) == 5)
    refused("this Model is closed", model.head, model)
    model = load() model:save(ROOT .. "/saved", closing(model))
    model = load() assert(#model:generate({ 1, 2 }, closing(model)) > 0)
    model = load() local parameters = model:parameters()
    moonring.trainer.adamw(parameters, closing(parameters, model))
    model = load() parameters = model:parameters()
    local mesh = moonring.comm.mesh {}
    local zero = moonring.trainer.zero { mesh = mesh, stage = 0, group = "world" }
    local states = zero:states(parameters, closing(zero, parameters))
    states:clip(closing(states, mesh))
    local log = moonring.trainer.log { dir = ROOT, total_steps = 1 }
    log:write(setmetatable({ step = 1, epoch = 1, loss = 1, tokens = 1 }, )lua"
                R"lua(getmetatable(closing(log))))
  )lua")
                .message,
            "");
}

TEST_F(Confined, DeepTablesAreNoTensors) {
  EXPECT_EQ(Try(R"lua(
    local deep, whole = {}, {}
    whole[1] = whole
    for _ = 1, 1e5 do deep = { deep } end
    for _, value in ipairs { whole, deep } do refused("more than 64 deep, or contains itself",
      moonring.tensor, value) end
  )lua")
                .message,
            "");
}

// Memory for parsing and formatting is counted before malloc is called: the limit is far below the
// memory that these calls would take.
TEST_F(Confined, TextsThatGrowWithoutMeasureAreRefused) {
  host().limits.confinement =
      *ConfineTo({.roots = {root_.string()}, .memory = 100'000'000}, host().assets);
  EXPECT_EQ(Try(R"lua(
    local system, NO_ROOM = moonring.system, "RESOURCE_EXHAUSTED: --sandbox-memory: no room for "
    local long, list = ("x"):rep(1e6), {}
    for i = 1, 500 do list[i] = long end
    refused(NO_ROOM, system.json_encode, list)
    local shared = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }
    for _ = 1, 8 do shared = { shared, shared, shared, shared, shared, shared, shared, shared,
      shared, shared } end
    refused(NO_ROOM, system.json_encode, shared)
    refused(NO_ROOM, system.json_decode, "[" .. ('{"a":1},'):rep(1e6) .. "1]")
    refused(NO_ROOM, system.yaml_decode, "[" .. ("1,"):rep(1e6) .. "1]")
    local small = { a = { 1, 2, "three" }, b = long:sub(1, 1e5) }
    for _ = 1, 100 do assert(system.json_decode(system.json_encode(
      small)).a[3] == "three") end -- what was charged is given back
  )lua")
                .message,
            "");
}

// Under a limit of instructions, the replacements of LuaJIT's functions give the same results.
TEST_F(FewInstructions, LongTextsAndListsAreFoundAndSorted) {
  host().limits.instructions = 50'000'000;
  EXPECT_EQ(Run(R"lua(
    local s = ("ab"):rep(1e5) .. "needle" .. ("a"):rep(1e5)
    local sought = "needle" .. ("a"):rep(9e4)
    local at, to = s:find(sought, 1, true)
    assert(at == 200001 and to == at + #sought - 1)
    assert(s:find(sought) == 200001 and s:find(sought, 200001) == 200001
      and s:find(sought, 200002) == nil and s:find(sought, -1e6) == 200001)
    assert(select("#", s:find(sought .. "b", 1, true)) == 1)
    assert(("a"):rep(4e6):find(("a"):rep(2e6) .. "b", 1,
      true) == nil) -- place by place these would be 8e12 comparisons
    local list, sum = {}, 0
    for i = 1, 5000 do list[i] = { key = (i * 7919) % 4999, i = i } end
    table.sort(list, function(a, b) return a.key < b.key or (a.key == b.key and a.i < b.i) end)
    for i = 2, #list do assert(list[i - 1].key < list[i].key
      or (list[i - 1].key == list[i].key and list[i - 1].i < list[i].i)) end
    local words = {}
    for i = 1, 3001 do words[i] = tostring((i * 7919) % 3001) end
    table.sort(words)
    for i = 2, #words do assert(words[i - 1] < words[i]) end
    assert(not pcall(table.sort, words, function() error "no" end) and #words == 3001)
  )lua")
                .message,
            "");
}

// Endless nesting of calls between Lua and C ends in an error, also on threads with small stacks.
TEST_F(Confined, NestingEndsInAnError) {
  constexpr char kScript[] = R"lua(
    local m, n = require "moonring", 0
    local function deep(f) n = 0 local done, why =
      pcall(f) assert(not done and tostring(why):find("overflow", 1, true) and n > 5, n .. " "
      .. tostring(why)) end
    local function gsub() n = n + 1 return (("x"):gsub("x", gsub)) end deep(gsub)
    local function scope() n = n + 1 m.scope(scope) end deep(scope)
    local function sort() n = n + 1 table.sort({ 3, 2, 1 }, sort) end deep(sort)
    local function wrap() n = n + 1 coroutine.wrap(wrap)() end deep(wrap)
    local format = setmetatable({}, { __tostring = function(t) n = n + 1 return (
      ("%s"):format(t)) end }) deep(function() return ("%s"):format(format) end)
    local function resume() n = n + 1 coroutine.resume(coroutine.create(resume)) end resume()
    local function load_() n = n + 1 load(load_) end load_()
  )lua";
  for (const size_t kilobytes : {1024, 256}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kilobytes << 10);
    std::string message;
    std::function<void()> task = [&] { message = Run(kScript).message; };
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void* given) -> void* {
                    (*static_cast<std::function<void()>*>(given))();
                    return nullptr;
                  },
                  &task),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_EQ(message, "") << kilobytes << " KiB";
  }
}

// The functions in counted_patterns.lua equal LuaJIT's own, for random patterns and texts.
TEST_F(Confined, PatternsMatchAsLuaJitsDo) {
  host().sandbox = false;
  const ScriptError error = Run(R"lua(
    local counted = require "moonring.sandbox.counted_patterns"
    math.randomseed(7)
    local function some(list) return list[math.random(#list)] end
    local function text() local t = {} for i = 1,
      math.random(0, 12) do t[i] = some { "a", "b", "a", "1", " ", "(", ")", "%", "]", "^", "-",
      "\0", "\255", "A" } end return table.concat(t) end
    local CLASSES = { "a", "b", ".", "%a", "%d", "%s", "%W", "%%", "[ab]", "[^a]", "[a-z]",
      "[%w%-]", "[]a]", "[^]]", "%(", "1", "^", "$", "%x", "%u", "%z", "]", "-", "%p", "%a?\0" }
    local function pattern()
      local t = { math.random(4) == 1 and "^" or "" }
      local open, closed = {}, 0
      for i = 1, math.random(0, 6) do
        local kind = math.random(14)
        if kind == 1 then t[#t + 1] = "(" open[#open + 1] = true
        elseif kind == 2 and #open > 0 then t[#t + 1] = ")" open[#open] = nil closed = closed + 1
        elseif kind == 3 then t[#t + 1] = "()"
        elseif kind == 4 then t[#t + 1] = "%b()"
        elseif kind == 5 then t[#t + 1] = "%f[%w]"
        elseif kind == 6 and #open == 0 and closed > 0 and not table.concat(t):find("()", 1, )lua"
                                R"lua(true) then t[#t + 1] = "%1"
        else t[#t + 1] = some(CLASSES) .. some { "", "", "*", "+", "-", "?" } end
      end
      t[#t + 1] = (")"):rep(#open)
      t[#t + 1] = math.random(4) == 1 and "$" or ""
      return table.concat(t)
    end
    local function results(f, ...)
      local r = { pcall(f, ...) }
      if not r[1] then return "error" end
      for i = 1, 12 do r[i] = type(r[i]) == "string" and ("%q"):format(r[i]) or tostring(r[i]) end
      return table.concat(r, " ")
    end
    local function all(gmatch)
      return function(...)
        local found = {}
        for a, b, c in gmatch(...) do found[#found + 1] =
          ("%s|%s|%s"):format(tostring(a), tostring(b), tostring(c)) end
        return table.concat(found, ";")
      end
    end
    local errors, found = 0, 0
    for i = 1, 40000 do
      local s, p, init = text(), pattern(), some { 1, 1, 1, 2, -1, -3, 0, 20 }
      local with = some { "x", "<%0>", "%%", "%1", "", { a = "A", [" "] = false },
        function(a) return a == "a" and "!" or nil end }
      for name, arguments in pairs { find = { s, p, init }, match = { s, p, init },
        gmatch = { s, p }, gsub = { s, p, with, some { nil, 0, 1, 2 } } } do
        local ours, theirs = counted[name], string[name]
        if name == "gmatch" then ours, theirs = all(ours), all(theirs) end
        local mine, wanted = results(ours, unpack(arguments)), results(theirs, unpack(arguments))
        if mine == "error" then errors = errors + 1 else
          if name == "find" and not wanted:find "^true nil" then found = found + 1 end
          assert(mine == wanted, ("%s %q %q %s: %s, LuaJIT's is %s"):format(name, s, p,
            tostring(arguments[3]), mine, wanted))
        end
      end
    end
    assert(errors < 40000 and found > 5000, errors .. " errors, " .. found .. " found")
  )lua");
  EXPECT_EQ(error.message, "");
}

class LittleMemory : public Confined {
 protected:
  LittleMemory() {
    base::InstallMemoryAccount();
    confinement_ = *ConfineTo({.roots = {root_.string()}, .memory = 64 << 20}, host().assets);
    host().limits.confinement = confinement_;
  }
  std::shared_ptr<base::Confinement> confinement_;
};

TEST_F(LittleMemory, NothingGrowsBeyondIt) {
  for (const char* script : {
           "local s = ('x'):rep(1e9)",
           "local s = ('x'):rep(1e7) while true do s = s .. s end",
           "local t = {} for i = 1, 1e9 do t[i] = i end",
           "local t = {} for i = 1, 1e9 do t[i] = {} end",
           "local t = {} for i = 1, 1e4 do t[i] = ('x'):rep(1e5) .. i end return table.concat(t)",
           "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
           "local t = {} for i = 1, 1e9 do t[i] = assert(load 'return 1') end",
           "string.format(('%s'):rep(100), ('x'):rep(1e6), ('x'):rep(1e6))",
           "return (('x'):rep(1e6):gsub('x', ('y'):rep(1000)))",
           "local m = require 'moonring' local t = {} for i = 1, 1e9 do t[i] = m.tensor { 1, 2, 3 "
           "} end",
           "local m = require 'moonring' local x = m.tensor { 1 } while true do x = m.cat { x, x } "
           "end",
           "return require 'moonring'.system.json_decode(('['):rep(1e7))",
       }) {
    const ScriptError error = Run(script);
    EXPECT_NE(error.exit_code, 0) << script;
    EXPECT_LT(confinement_->charged(), 4 << 20)
        << script;  // after a run, only its globals remain allocated
  }
  EXPECT_THAT(
      Run("local s = ('x'):rep(1e9)").message,
      AllOf(HasSubstr("out of memory"), HasSubstr("--sandbox-memory allows 67108864 bytes")));
  EXPECT_THAT(Run(R"lua(
    local moonring = require "moonring"
    local row, rows = moonring.tensor { 1 }, {}
    for i = 1, 20 do row = moonring.cat { row, row } end -- 4 MiB
    for i = 1, 32 do rows[i] = row end
    moonring.cat(rows)
  )lua")
                  .message,
              AllOf(HasSubstr("out of memory: 128.0 MiB for other"),
                    HasSubstr("more than --sandbox-memory allows")));
}

TEST_F(LittleMemory, WhatIsDroppedDoesNotCount) {
  EXPECT_EQ(Run(R"lua(
    for i = 1, 200 do local s = ("x"):rep(4e6) .. i end
    for i = 1, 2e5 do local t = { i, { i } } end
    local moonring = require "moonring"
    local row = moonring.tensor { 1 }
    for i = 1, 20 do row = moonring.cat { row, row } end -- 4 MiB
    for i = 1, 200 do local more = row * 2 end
  )lua")
                .message,
            "");
}

// Cancelling
// -------------------------------------------------------------------------------------------------

TEST_F(Confined, ALoopEndsOnceItIsCancelled) {
  auto cancel = std::make_shared<CancelFlag>(Cancel::kNone);
  host().limits.cancel = cancel;
  vm();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    *cancel = Cancel::kNow;
  });
  EXPECT_EQ(Run("while true do pcall(function() while true do end end) end").message,
            "CANCELLED: the run was cancelled");
  other.join();
  EXPECT_EQ(Run("return").message, "CANCELLED: the run was cancelled");
}

}  // namespace
}  // namespace moonring::lua
