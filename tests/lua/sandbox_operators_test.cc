// Every operator that a sandboxed script may call, with values of the right types and unusual
// contents: a call may fail with one clear error, and never ends the process. Each name is printed
// before its calls, so that a crash can be attributed.

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/memory/memory_account.h"
#include "gtest/gtest.h"
#include "lua/operators/sandbox_operators.h"
#include "lua/operators/schemas.h"
#include "lua/vm/vm.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class SandboxOperatorsTest : public VmTest {
 protected:
  SandboxOperatorsTest() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that a crash loses no output
    base::InstallMemoryAccount();  // as in the host: allocations are counted and limited
    fs::create_directories(root_);
    host().sandbox = true;
    host().limits.confinement =
        *ConfineTo({.roots = {root_.string()}, .memory = 400'000'000}, host().assets);
  }
  const fs::path root_ = fs::path(::testing::TempDir()) / "sandbox_operators";
};

TEST(SandboxOperators, ArePublicAndThere) {
  Operators all({});
  for (const absl::string_view name : SandboxOperators()) {
    EXPECT_NE(all.Find(name), nullptr) << name;
    EXPECT_NE(name[0], '_') << name;
  }
}

TEST_F(SandboxOperatorsTest, OthersAreNotThere) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    local x = moonring.tensor { 1, 2 }
    for _, name in ipairs { "from_file", "set_", "as_strided", "resize_", "set_data", "_softmax",
      "empty", "lstm", "sparse_coo_tensor", "pin_memory" } do
      local done, why = pcall(function() return moonring.ops[name] end)
      assert(not done and why:find "there is no operator", name)
      assert(not pcall(function() return x[name](x) end), name)
    end
    assert(#moonring.operators.names() > 400)
  )lua")
                .message,
            "");
}

TEST_F(SandboxOperatorsTest, NeverEndTheProcess) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    local tensor, ops = moonring.tensor, moonring.ops
    local state = 12345
    local function draw(n) -- a number from 1 to n
      state = (state * 1103515245 + 12345) % 2147483648
      return math.floor(state / 65536) % n + 1
    end
    local function pick(list) return list[draw(#list)] end
    local base = tensor({ { 1, -2, 3 }, { 4, 0, -6 } })
    local least = tensor({ -9223372036854775808, -1, 0, 5 }, "int64")
    local tensors = { base, base:t(), base[0], base:sum(), base:to "fp64", base:to "bf16",
      base:to "int64", base:to "bool", base:to "int32", base:to "uint8", least,
      tensor({}, "fp32"), ops.zeros(0, 3), ops.zeros(2, 0, 3), base / 0, base:to "fp16",
      tensor({ -1, 7 }, "int64"), tensor({ 0, 1, 1, 0 }, "int64"), ops.ones(2, 3, 4, 5),
      ops.ones(3, 3) * 1e38, base:expand { 4, 2, 3 }, tensor({ 2 ^ 31, 2 ^ 40 }, "int64"),
      tensor(1.5), tensor({ 3 }, "int64"), ops.full({ 3, 3 }, 1, { dtype = "complex64" }),
      ops.ones(2, 3, { dtype = "fp64" }):requires_grad_() }
    local integers = { 0, 1, -1, 2, 3, 5, -4, 2 ^ 31, -2 ^ 31, 2 ^ 40, 2 ^ 53, -2 ^ 53, 100 }
    local numbers = { 0, 1, -1, 0.5, -0.5, 1e308, -1e308, 1 / 0, -1 / 0, 0 / 0, 2 ^ 53 }
    local words = { "sum", "mean", "floor", "trunc", "fro", "nuc", "ij->j", "ij,jk->ik", "amax",
      "linear", "constant", "ij", "none", "", "reflect", "left" }
    local dtypes = { "fp32", "fp64", "int64", "bool", "bf16", "complex64", "uint8" }
    local function value(kind)
      if kind:find "%[" then
        local list, inner = {}, kind:gsub("%[%d*%].*$", "")
        for i = 1, draw(4) - 1 do list[i] = value(inner) end
        return list
      end
      if kind:find "^Tensor" then return pick(tensors) end
      if kind:find "Int" or kind == "int" then return pick(integers) end
      if kind == "float" or kind == "Scalar" then return draw(2) == 1 and pick(numbers)
        or pick(integers) end
      if kind == "bool" then return draw(2) == 1 end
      if kind == "str" then return pick(words) end
      if kind == "ScalarType" then return pick(dtypes) end
      if kind == "Generator" then return 7 end
      if kind == "Device" then return "cpu" end
      return nil
    end
    local function call(name, schema)
      local args, named, count, by_name = {}, {}, 0, false
      local inside = schema:match "^[%w_.]+%((.*)%) %->"
      for each in (inside .. ", "):gmatch "(.-), " do
        local kind, argument = each:match "^(%S+) ([%w_]+)"
        if each == "*" then
          by_name = true
        elseif kind then
          local optional = each:find "?" or each:find "="
          local wanted = not (optional and draw(2) == 1) and value((kind:gsub("%(.-%)", ""):gsub(
            "%?", ""))) or nil
          if by_name then
            named[argument] = wanted
          else
            count = count + 1
            args[count] = wanted
          end
        end
      end
      if next(named) then
        count = count + 1
        args[count] = named
      end
      return ops[name](unpack(args, 1, count))
    end
    local tried, done, odd = 0, 0, {}
    for _, name in ipairs(moonring.operators.names()) do
      print(name)
      for _, schema in ipairs(moonring.operators.schemas(name)) do
        for _ = 1, 40 do
          moonring.scope(function()
            local kept = {}
            if name:find "_$" then -- writes into copies
              for i, each in ipairs(tensors) do kept[i] = each end
              for i, each in ipairs(tensors) do tensors[i] = each:detach():clone() end
            end
            local ok, why = pcall(call, name, schema)
            tried, done = tried + 1, done + (ok and 1 or 0)
            if not ok and tostring(why):find "check inside LibTorch" then odd[#odd + 1] = name end
            if next(kept) then tensors = kept end
          end)
        end
      end
    end
    print(("%d calls, %d gave a result, %d met an assertion of LibTorch's: %s"):format(tried, done,
      #odd, table.concat(odd, " ")))
    assert(tried > 10000 and done > 1500, done .. " of " .. tried)
  )lua")
                .message,
            "");
}

// Operators of two tensors, or of a tensor and a number, with the smallest integers, -1 and 0: a
// quotient that overflows would cause a processor exception. Tensors have one element, or as many
// as are computed at once; broadcast, in place, and with another memory layout.
TEST_F(SandboxOperatorsTest, DivideIntegersOrRefuse) {
  EXPECT_EQ(Run(R"lua(
    local moonring = require "moonring"
    local ops = moonring.ops
    local lows = { int8 = -128, int16 = -2 ^ 15, int32 = -2 ^ 31, int64 = -2 ^ 63 }
    local tried, refused = 0, 0
    local function call(...)
      local done, why = pcall(...)
      tried, refused = tried + 1, refused + (done and 0 or 1)
      return done, why
    end
    local function pairs_of(name, schema, dtype, low, shape, extra)
      for _, low_or_5 in ipairs { low, 5 } do
        for _, divisor in ipairs { -1, 0 } do
          local x = ops.full(shape, low_or_5, { dtype = dtype })
          local y = ops.full(shape, divisor, { dtype = dtype })
          if schema:find "^[%w_.]+%(Tensor self, Scalar " then
            call(ops[name], x:clone(), divisor, extra)
          elseif schema:find "^[%w_.]+%(Scalar self, Tensor " then
            call(ops[name], low_or_5, y, extra)
          else
            call(ops[name], x:clone(), y, extra)
            if #shape == 2 then
              call(ops[name], x:clone(), y[0], extra)
              call(ops[name], x:clone():t(), y:t(), extra)
            end
          end
        end
      end
    end
    for _, name in ipairs(moonring.operators.names()) do
      for _, schema in ipairs(moonring.operators.schemas(name)) do
        if schema:find "^[%w_.]+%([TS]%w+ self, [TS]%w+ " then
          print(schema)
          for dtype, low in pairs(lows) do
            for _, shape in ipairs { {}, { 2, 40 } } do
              local modes = schema:find "rounding_mode" and { "trunc", "floor" } or { 0 }
              for _, mode in ipairs(modes) do
                moonring.scope(function()
                  pairs_of(name, schema, dtype, low, shape,
                    mode ~= 0 and { rounding_mode = mode } or nil)
                end)
              end
            end
          end
        end
      end
    end
    assert(tried > 5000 and refused > 100, tried .. ", " .. refused)
    -- What is refused is the least by -1 alone, and says so; a remainder is known, and small
    -- integers are divided as wide ones.
    local x = moonring.tensor({ -2 ^ 31, 7, -8 }, "int32")
    local three = { rounding_mode = "trunc" }
    for _, divisor in ipairs { -1, moonring.tensor({ -1, -1, 1 }, "int32") } do
      local done, why = call(x.div, x, divisor, three)
      assert(not done and why:find("INVALID_ARGUMENT: div: an element is -2147483648, the least "
        .. "int32, and divided by -1", 1, true), why)
    end
    local y = moonring.tensor({ 1, -1, -1 }, "int32")
    assert(x:div(y, three):equal(moonring.tensor({ -2 ^ 31, -7, 8 }, "int32")))
    assert(x:to("int64"):div(-1, three):equal(moonring.tensor({ 2 ^ 31, -7, 8 }, "int64")))
    assert(x:remainder(-1):equal(ops.zeros(3, { dtype = "int32" })))
    assert((x % -1):equal(ops.zeros(3, { dtype = "int32" })))
    assert(x:div(-1):select(0, 0):item() == 2 ^ 31)
  )lua")
                .message,
            "");
}

}  // namespace
}  // namespace moonring::lua
