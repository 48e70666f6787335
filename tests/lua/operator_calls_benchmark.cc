// Microseconds of an operator call from C++ and from Lua, including the operator's own work; the
// difference is the cost of Lua. tests/peers/operator_calls.py measures PyTorch from Python.
//   bazel run //tests/lua:operator_calls_benchmark

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <ATen/ATen.h>

#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace {

constexpr int kCalls = 200000, kRounds = 5;

// Returns the minimum over several rounds, because other work on the machine only adds time.
double Microseconds(const std::function<void()>& run) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / kCalls);
  }
  return least;
}

struct Row {
  const char* name;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> cpp;
  const char* lua;  // an expression of x and y, which are [2, 2]
};

const Row kRows[] = {
    {"add(x, y)", [](auto& x, auto& y) { return at::add(x, y); }, "add(x, y)"},
    {"x + y", [](auto& x, auto& y) { return x + y; }, "x + y"},
    {"x + 1", [](auto& x, auto&) { return x + 1; }, "x + 1"},
    {"x.relu()", [](auto& x, auto&) { return x.relu(); }, "x:relu()"},
    {"x.matmul(y)", [](auto& x, auto& y) { return x.matmul(y); }, "x:matmul(y)"},
    {"x.sum(1, keepdim)", [](auto& x, auto&) { return x.sum(1, true); }, "x:sum(1, true)"},
    {"x.view(4)", [](auto& x, auto&) { return x.view({4}); }, "x:view(4)"},
    {"x[1]", [](auto& x, auto&) { return x.select(0, 1); }, "x[1]"},
    {"x.softmax(-1)", [](auto& x, auto&) { return x.softmax(-1); }, "x:softmax(-1)"},
    {"x.add_(y, alpha=0)", [](auto& x, auto& y) { return x.add_(y, 0); },
     "x:add_(y, { alpha = 0 })"},
};

}  // namespace

int main(int, char** argv) {
  using moonring::lua::Assets;
  const auto assets = Assets::Find(argv[0]);
  if (!assets.ok()) return std::fprintf(stderr, "%s\n", assets.status().ToString().c_str()), 1;
  at::set_num_threads(1);
  const at::Tensor x = at::ones({2, 2}), y = at::ones({2, 2});
  std::printf("| call | C++ | Lua | Lua's part |\n|---|---|---|---|\n");
  for (const Row& row : kRows) {
    const double cpp = Microseconds([&] {
      for (int i = 0; i < kCalls; ++i) row.cpp(x, y);
    });
    moonring::lua::Vm vm(
        moonring::lua::Host{.assets = *assets, .libraries = moonring::lua::AllLibraries()});
    const std::string setup =
        "local m = require 'moonring' local x, y, add = m.ones(2, 2), m.ones(2, 2), m.ops.add "
        "function run() for i = 1, " +
        std::to_string(kCalls) + " do local z = " + row.lua + " end end";
    if (const auto error = vm.RunText(setup, "=benchmark", {}); error.exit_code != 0)
      return std::fprintf(stderr, "%s\n", error.message.c_str()), 1;
    moonring::lua::CallResult result;
    const double lua = Microseconds([&] { vm.Call("run", "", {}, result); });
    std::printf("| %s | %.2f | %.2f | %.2f |\n", row.name, cpp, lua, lua - cpp);
  }
  return 0;
}
