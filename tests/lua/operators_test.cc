// Operators in Lua: every kind of argument and result, overloads, named arguments, in-place
// operators; values and gradients compared with PyTorch's (tests/golden/operators); tensors printed
// as by PyTorch; errors.

#include <string>

#include "gtest/gtest.h"
#include "lua/binding/stack.h"
#include "tests/lua/fixture.h"
#include "trainer/reports/resources.h"

namespace moonring::lua {
namespace {

class OperatorsTest : public VmTest {
 protected:
  std::string Check(const std::string& text) {
    return Run("local moonring = require 'moonring' local ops, tensor = moonring.ops, "
               "moonring.tensor local golden = arg[1] " +
                   text,
               {(host().assets.root() + "/tests/golden/operators")})
        .message;
  }
};

TEST_F(OperatorsTest, GiveWhatPyTorchGives) {
  EXPECT_EQ(Check(R"lua(
    local cases = moonring.system.json_decode(moonring.system.read(golden .. "/operators.json"),
      "operators.json")
    local saved = moonring.safetensors.read(golden .. "/operators.safetensors")
    local failures = {}

    local function close(got, want)
      if got:dtype() ~= want:dtype() then return "dtype " .. got:dtype() end
      if table.concat(got:shape(), ",") ~= table.concat(want:shape(), ",") then return "shape" end
      if got:numel() == 0 then return nil end
      local a, b = got:to "fp64", want:to "fp64"
      local same = a:isclose(b, 1e-9, 1e-10, true):all():item()
      return not same and ("got %s, expected %s"):format(got, want) or nil
    end

    local function flat(results)
      local all = {}
      for _, each in ipairs(results) do
        if type(each) == "table" then
          for _, one in ipairs(flat(each)) do all[#all + 1] = one end
        elseif type(each) == "userdata" then
          all[#all + 1] = each
        end
      end
      return all
    end

    local function run(i, case)
      local leaves = {}
      local function decode(given, written)
        if given.none then return nil end
        if given.list then
          local list = {}
          for j, each in ipairs(given.list) do list[j] = decode(each) end
          return list
        end
        if given.tensor == nil then return given.value end
        local x = saved[given.tensor]:clone()
        if given.grad then
          leaves[#leaves + 1] = x:requires_grad_()
          if written then return x * 1 end -- a leaf that requires a gradient may not be written
        end
        return x
      end
      local args, count = {}, #case.args
      for j, each in ipairs(case.args) do
        args[j] = decode(each, j == 1 and case.name:find "_$" and case.name:sub(1, 1) ~= "_")
      end
      if next(case.kwargs) then
        local named = {}
        for name, each in pairs(case.kwargs) do named[name] = decode(each) end
        count = count + 1
        args[count] = named
      end
      local name = case.name == "repeat" and "repeat_" or case.name -- a word of Lua's
      local results = { ops[name](unpack(args, 1, count)) }
      local tensors = flat(results)
      assert(#tensors == case.results, ("%d results, expected %d"):format(#tensors, case.results))
      if case.number ~= nil then
        assert(results[1] == case.number, ("%s, expected %s"):format(results[1], case.number))
      end
      local key = ("%d.%s"):format(i - 1, case.name)
      local total
      for j, each in ipairs(tensors) do
        local wrong = close(each, saved[("%s.r%d"):format(key, j - 1)])
        assert(not wrong, "result " .. j .. ": " .. tostring(wrong))
        if each:requires_grad() then
          local weights = moonring.arange(each:numel(), { dtype = "fp64" }):sin()
          local sum = (each * weights:view(each:shape())):sum()
          total = total and total + sum or sum
        end
      end
      if case.gradients == 0 then return end
      local gradients = moonring.autograd.grad({ total }, leaves, { allow_unused = true })
      for j = 1, case.gradients do
        local want = saved[("%s.g%d"):format(key, j - 1)]
        if want then
          local wrong = close(gradients[j], want)
          assert(not wrong, "gradient " .. j .. ": " .. tostring(wrong))
        else
          assert(gradients[j] == nil, "a gradient " .. j)
        end
      end
    end

    local names, checked = {}, 0
    for i, case in ipairs(cases) do
      moonring.scope(function()
        local done, why = pcall(run, i, case)
        if not done then failures[#failures + 1] = i - 1 .. " " .. case.name .. ": " .. why end
      end)
      if not names[case.name] then checked = checked + 1 end
      names[case.name] = true
    end
    assert(#failures == 0, "\n" .. table.concat(failures, "\n"))
    assert(checked >= 300, checked)
  )lua"),
            "");
}

TEST_F(OperatorsTest, PrintAsPyTorchDoes) {
  EXPECT_EQ(Check(R"lua(
    local texts = moonring.system.json_decode(moonring.system.read(golden .. "/text.json"), "text")
    local saved = moonring.safetensors.read(golden .. "/text.safetensors")
    local names = { float64 = "fp64", bfloat16 = "bf16", float16 = "fp16" }
    for i, want in ipairs(texts) do
      want = want:gsub("torch%.(%w+)", function(name) return names[name] or name end)
      local got = tostring(saved[tostring(i - 1)])
      assert(got == want, ("%d\n%s\nwanted\n%s"):format(i - 1, got, want))
    end
    local w = moonring.ones(2, { requires_grad = true })
    assert(tostring(w) == "tensor([1., 1.], requires_grad=True)", tostring(w))
    assert(tostring(w * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)", tostring(w * 2))
    assert(tostring(moonring.zeros(2, { device = "meta" }))
      == "tensor(..., device='meta', size=(2,))")
  )lua"),
            "");
}

// Nearly every schema of the dispatcher is available. Exceptions are those with argument types that
// have no equivalent in Lua.
TEST_F(OperatorsTest, AreAllThere) {
  EXPECT_EQ(Check(R"lua(
    local count = moonring.operators.count()
    assert(count.names >= 1500 and count.overloads >= 3000, count.overloads)
    local left_out = 0
    for _, n in pairs(count.left_out) do left_out = left_out + n end
    assert(left_out <= 150 and count.left_out["named dims"], left_out)
    for _, name in ipairs(moonring.operators.names()) do
      local found, why = pcall(function() return ops[name] end)
      assert(found or tostring(why):find "there is no operator", why)
    end
    assert(moonring.operators.schemas "matmul"[1] == "matmul(Tensor self, Tensor other) -> Tensor")
  )lua"),
            "");
}

TEST_F(OperatorsTest, TakeArgumentsAsPyTorchDoes) {
  EXPECT_EQ(Check(R"lua(
    local x = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    -- By place and by name; sizes one by one; nil for None, or for a default.
    assert(x:sum(0, { keepdim = true }):shape()[1] == 1 and x:view(3, 2):shape()[1] == 3)
    assert(x:view { 6 }:dim() == 1 and x:sum(nil, true):dim() == 2)
    assert(x:std { correction = 0 }:item() ~= x:std():item())
    assert(ops.zeros(2, 3):numel() == 6 and ops.zeros({}):dim() == 0)
    assert(ops.full({ 2 }, 1):dtype() == "int64" and ops.full({ 2 }, 1.5):dtype() == "fp32")
    assert(x:split(1, { dim = 1 })[3][{ 1, 0 }]:item() == 6)
    -- A whole number is an integer; a cdata double or a dtype says otherwise.
    local ffi = require "ffi"
    assert(ops.full({ 2 }, ffi.new("double", 1)):dtype() == "fp32")
    assert(ops.full({ 1 }, 9007199254740993LL):eq(9007199254740992LL):item() == false)
    assert(ops.full({ 2 }, 1, { dtype = "fp64" }):dtype() == "fp64")
    -- Several results; lists of tensors; words for reductions.
    local values, indices = x:max(1)
    assert(values:tolist()[2] == 6 and indices:tolist()[1] == 2)
    assert(ops.cat({ x, x }, 1):size(1) == 6 and #x:unbind() == 2)
    assert(ops.mse_loss(x, x * 0, "sum"):item() == 91)
    -- A method's object is `self`, wherever the schema has it.
    assert(x:where(x:gt(3), 0):sum():item() == 15)
    assert(ops.where(x:gt(3), x, 0):sum():item() == 15)
    -- In place and out of place.
    local z = ops.zeros(2, 3)
    assert(z:add_(1) == z and z:sum():item() == 6)
    assert(ops.add(x, x, { out = z }) == z and z:sum():item() == 42)
    -- A word that Lua reserves.
    assert(ops.repeat_(x, { 2, 1 }):size(0) == 4 and x:repeat_(2, 1):size(0) == 4)
    -- A generator is a seed.
    local a, b = ops.zeros(4):normal_(0, 1, { generator = 7 }), ops.zeros(4)
    b:normal_(0, 1, { generator = 7 })
    assert(a:equal(b) and not a:equal(ops.zeros(4):normal_(0, 1, { generator = 8 })))
    assert(x:result_type(tensor({ 1 }, "fp64")) == "fp64")
    assert(#ops.randn(2, 3) == 2 and (x % 2)[{ 0, 1 }]:item() == 0)
    local foreach = ops._foreach_add({ x, z }, 1)
    assert(foreach[2]:sum():item() == 48)
    ops._foreach_mul_({ x }, 2)
    assert(x:sum():item() == 42)
  )lua"),
            "");
}

TEST_F(OperatorsTest, IndexAsPyTorchDoes) {
  EXPECT_EQ(Check(R"lua(
    local x = moonring.arange(24):view(2, 3, 4)
    local function same(got, shape, sum)
      assert(table.concat(got:shape(), "x") == shape and got:sum():item() == sum, tostring(got))
    end
    same(x[1], "3x4", 210) same(x[-1], "3x4", 210)
    assert(x[{ 1, 2, 3 }]:item() == 23 and x[{ -1, -1, -1 }]:item() == 23)
    same(x[{ {}, 1 }], "2x4", 92)
    same(x[{ { 0, 1 }, { 1, 3 }, { 0, 4, 2 } }], "1x2x2", 28)
    same(x[{ { 1 }, {}, 0 }], "1x3", 48)
    same(x[{ { 0, math.huge }, 0, 0 }], "2", 12)
    same(x[{ "...", 0 }], "2x3", 60)
    same(x[{ moonring.null, 0 }], "1x3x4", 66)
    same(x[x:gt(20)], "3", 66)
    same(x[tensor({ 1, 1 }, "int64")], "2x3x4", 420)
    same(x[{ {}, tensor({ 2, 0 }, "int64"), 1 }], "2x2", 44)
    same(x[{ { 5, 9 } }], "0x3x4", 0)
    x[{ 0, {}, 0 }] = -1
    assert(x[{ 0, 2, 0 }]:item() == -1 and x[{ 1, 2, 0 }]:item() == 20)
    x[x:lt(0)] = 100
    assert(x[{ 0, 2, 0 }]:item() == 100)
    x[0] = moonring.zeros(4, { dtype = "int64" }) -- broadcast
    same(x[0], "3x4", 0)
    local row = x[1]
    row[0] = 7 -- a view
    assert(x[{ 1, 0, 3 }]:item() == 7)
    local w = moonring.ones(3, { requires_grad = true })
    ;(w[1] * 5 + w[{ { 0, 2 } }]:sum()):backward()
    assert(table.concat(w:grad():tolist(), " ") == "1 6 0")
  )lua"),
            "");
}

TEST_F(OperatorsTest, DoNotWriteReadOnlyTensors) {
  EXPECT_EQ(Check(R"lua(
    local w = moonring.ones(2, { requires_grad = true })
    local done, why = pcall(w.add_, w, 1)
    assert(not done and why:find "leaf Variable that requires grad", why)
    moonring.no_grad(function() w:add_(1) end)
    assert(w:sum():item() == 4)
    local y = w * w
    y:mul_(2):sum():backward()
    assert(w:grad()[0]:item() == 8)
    local z = w:exp()
    z:add_(1)
    done, why = pcall(function() z:sum():backward() end)
    assert(not done and why:find "modified by an inplace operation", why)
  )lua"),
            "");
}

TEST_F(OperatorsTest, NewTensorsAreFunctionsOfTheirSeed) {
  EXPECT_EQ(Check(R"lua(
    local a, b = moonring.randn(1000, { seed = 3, dtype = "fp64" }),
      moonring.randn({ 1000 }, { seed = 3, dtype = "fp64" })
    assert(a:equal(b) and not a:equal(moonring.randn(1000, { seed = 4, dtype = "fp64" })))
    assert(math.abs(a:mean():item()) < 0.12 and math.abs(a:std():item() - 1) < 0.08)
    assert(math.abs(a:pow(4):mean():item() - 3) < 1, "the tails are a normal's")
    local u = moonring.rand(10000, { seed = 5 })
    assert(u:min():item() >= 0 and u:max():item() < 1 and math.abs(u:mean():item() - 0.5) < 0.02)
    assert(not moonring.randn(3):equal(moonring.randn(3)), "the next of the count")
    -- A token draws the same on any rank and row.
    local rows = tensor({ 5, 9, 7 }, "int64")
    local all = moonring.randn(4, { seed = 1, step = 2, rows = rows })
    local one = moonring.randn(4, { seed = 1, step = 2, rows = tensor({ 7 }, "int64") })
    assert(all:shape()[1] == 3 and all[2]:equal(one[0]))
    assert(moonring.full({ 2 }, 1):dtype() == "fp32" and moonring.arange(3):dtype() == "int64")
    assert(moonring.arange(0, 1, 0.25):numel() == 4 and moonring.arange(3, { dtype = "fp64" })
      :dtype() == "fp64")
    assert(tensor({ true, false }, "bool"):any():item() == true and tensor(3):dim() == 0)
    assert(not pcall(moonring.zeros, 2, { dtpye = "fp64" }))
  )lua"),
            "");
}

// A wrong call gives one clear message: which argument, the given value, and the expected one.
TEST_F(OperatorsTest, WrongCallsSayWhatIsWrong) {
  EXPECT_EQ(Check(R"lua(
    local x, ints = tensor { { 1, 2, 3 }, { 4, 5, 6 } }, tensor({ 1, 2 }, "int64")
    local closed = tensor { 1 }
    closed:close()
    local huge = 2 ^ 60
    local named = { -- calls and a part of what they say
      { function() return ops.nothing(x) end, "there is no operator 'nothing'" },
      { function() return ops.matmull(x, x) end, "did you mean 'matmul'" },
      { function() return x:summ() end, "a tensor has no 'summ'" },
      { function() return ops.add(x) end, "argument 'other' is missing" },
      { function() return ops.add() end, "no overload takes ()" },
      { function() return ops.add("x", x) end, "argument 'self': expected Tensor, got string 'x'" },
      { function() return ops.add(x, nil) end, "argument 'other': expected" },
      { function() return ops.add(x, x, { alfa = 1 }) end, "has no argument 'alfa'" },
      { function() return ops.add(x, x, { other = x }) end, "argument 'other' is given twice" },
      { function() return ops.add(x, {}) end, "got table" },
      { function() return ops.add(closed, 1) end, "argument 'self': this tensor is closed" },
      { function() return x:add(closed) end, "this tensor is closed" },
      { function() return closed + 1 end, "this tensor is closed" },
      { function() return closed[0] end, "this tensor is closed" },
      { function() closed[0] = 1 end, "this tensor is closed" },
      { function() return x:sum("rows") end, "expected a list of int, or one for all, or nil" },
      { function() return x:sum(0.5) end, "got number 0.5" },
      { function() return x:sum(7) end, "Dimension out of range" },
      { function() return x:view(4) end, "shape '[4]' is invalid for input of size 6" },
      { function() return x:view(2.5, 2) end, "expected whole numbers, got 2.5" },
      { function() return x:matmul(x) end, "(2x3 and 2x3)" },
      { function() return x:matmul(x) end, "given Tensor fp32 [2, 3], Tensor fp32 [2, 3]" },
      { function() return ops.cat({}) end, "non-empty list of Tensors" },
      { function() return ops.cat({ x, 1, "a" }) end, "argument 'tensors': expected a list" },
      { function() return ops.zeros({ 2 }, { dtype = "fp23" }) end, "argument 'dtype': expected" },
      { function() return ops.zeros({ 2 }, { device = "tpu" }) end, "argument 'device': expected" },
      { function() return x:to "fp23" end, "dtype: expected fp32" },
      { function() return x:softmax(-1, { 1 }) end, "no overload takes" },
      { function() return x:gather(0, x) end, "index" },
      { function() return x:index_select(0, tensor({ 9 }, "int64")) end, "out of range" },
      { function() return x[5] end, "index 5 out of range" },
      { function() return x[{ 0, 9 }] end, "index 9 is out of bounds" },
      { function() return x[0.5] end, "expected a whole number, got 0.5" },
      { function() return x[{ 0, "rows" }] end, "got string 'rows'" },
      { function() return x[{ 0, 0, 0 }] end, "too many indices" },
      { function() return x[{ { 0, 2, 0 } }] end, "expected a step from 1, got 0" },
      { function() return x[{ { 0, 1, 2, 3 } }] end, "a slice is {first, end, step}" },
      { function() return x[tensor { 1, 2 }] end, "tensors used as indices must be" },
      { function() x.name = 1 end, "a tensor has no field 'name' to set" },
      { function() x[0] = "a" end, "expected a tensor or a number, got string 'a'" },
      { function() x[0] = tensor { 1, 2 } end, "x[..]" },
      { function() return #x:sum() end, "a tensor of shape [] has no rows" },
      { function() return x:sum()[0] end, "a tensor of shape [] has no rows" },
      { function() return x:item() end, "expected a tensor of one element" },
      { function() return x + "a" end, "Tensor" },
      { function() return ints:mean() end, "mean" },
      { function() return ints:requires_grad_() end, "Only Tensors of floating point" },
      { function() return ops.full({ huge, huge }, 1) end, "full" },
      { function() return moonring.randn(2, { sed = 1 }) end, "unknown option 'sed'" },
      { function() return x:backward() end, "expected a loss of one element" },
      { function() return x:sum():backward() end, "this loss has no gradient" },
      { function() return moonring.autograd.grad(x:sum(), x) end, "has no graph" },
      { function() return moonring.autograd.func { forward = print } end, "'backward' is missing" },
    }
    if require("moonring.native.model").gpus() == 0 then
      named[#named + 1] = { function() return x:to "cuda" end, "this machine has no GPU" }
      named[#named + 1] = { function() return moonring.zeros(2, { device = "cuda" }) end,
        "this machine has no GPU" }
      named[#named + 1] = { function() return ops.zeros({ 2 }, { device = "cuda" }) end,
        "from the 'CUDA' backend. (given" }
    end
    for i, case in ipairs(named) do
      local done, why = pcall(case[1])
      assert(not done, "call " .. i .. " is taken")
      if case[2] ~= "x[..]" then
        assert(tostring(why):find(case[2], 1, true), i .. ": " .. tostring(why))
      end
      assert(tostring(why):find("script.lua:", 1, true), "it says where: " .. tostring(why))
    end
    -- Each of these values in the place of each argument of some operators, two hundred and more.
    local odd = { "x", true, {}, { "a" }, { x, "a" }, function() end, closed,
      coroutine.create(print), -1.5, huge, { { 1 } }, moonring.null, io.stdout }
    local some = { add = 2, sum = 2, view = 2, cat = 2, index_select = 3, gather = 3, softmax = 2,
      where = 3, layer_norm = 3, einsum = 2, narrow = 4, embedding = 2, scatter = 4, topk = 2 }
    local right = { add = { x, x }, sum = { x, 0 }, view = { x, { 6 } }, cat = { { x }, 0 },
      index_select = { x, 0, ints:narrow(0, 0, 1) }, gather = { x, 0, ints:view(1, 2) * 0 },
      softmax = { x, 0 }, where = { x:gt(1), x, x }, layer_norm = { x, { 3 }, x[0] },
      einsum = { "ij->j", { x } }, narrow = { x, 0, 0, 1 }, embedding = { x, ints * 0 },
      scatter = { x, 0, ints:view(1, 2) * 0, 1 }, topk = { x, 1 } }
    local tried, refused = 0, 0
    for name, places in pairs(some) do
      for place = 1, places do
        for _, value in ipairs(odd) do
          local args = { unpack(right[name], 1, places) }
          args[place] = value
          tried = tried + 1
          local done, why = pcall(ops[name], unpack(args, 1, places))
          if not done then
            refused = refused + 1
            local inside = tostring(why):find "check inside LibTorch"
            assert(tostring(why):find(name, 1, true) and not inside,
              name .. ": " .. tostring(why))
          end
        end
      end
    end
    assert(tried > 400 and refused > 300, refused .. " of " .. tried)
  )lua"),
            "");
}

TEST_F(OperatorsTest, LeaveMemoryWhereItWas) {
  Define("resident", Bind<[] { return trainer::ResidentBytes(); }>);
  EXPECT_EQ(Check(R"lua(
    local x, add = moonring.ones(8), ops.add
    local function run(n) for i = 1, n do local y = add(x, x):view(2, 4) end end
    local w = moonring.ones(8, { requires_grad = true })
    local function graphs(n) -- that nobody keeps
      moonring.scope(function() for i = 1, n do local y = (w * 2):sum() end end)
    end
    -- The first calls reserve memory that later ones use again.
    run(300000) graphs(100000)
    collectgarbage() collectgarbage()
    local before = resident()
    run(1000000) graphs(300000)
    collectgarbage() collectgarbage()
    assert(resident() - before < 100e6, resident() - before) -- a leak: 200 MB and more
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
