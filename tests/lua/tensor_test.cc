// Tensors in Lua: scopes, tensors that outlive them, arithmetic, and memory that LuaJIT cannot see.

#include "lua/binding/tensor.h"

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "gtest/gtest.h"
#include "lua/binding/stack.h"
#include "tests/lua/fixture.h"
#include "trainer/reports/resources.h"

namespace moonring::lua {
namespace {

at::Tensor g_held;  // a reference in C++ that outlives the scope

class Tensors : public VmTest {
 protected:
  Tensors() {
    g_held.reset();
    // The tensor is filled, so that its memory is resident.
    Define("big", Bind<[](double megabytes) {
             return at::ones({static_cast<int64_t>(megabytes * 1e6 / 4)});
           }>);
    Define("hold", Bind<[](at::Tensor tensor) { g_held = tensor; }>);
    Define("recording", Bind<[] { return at::GradMode::is_enabled(); }>);
    Define("resident", Bind<[] { return trainer::ResidentBytes(); }>);
    Define("weight", Bind<[] { return at::ones({2}, at::kDouble).requires_grad_(true); }>);
    Define("gradient", Bind<[](at::Tensor tensor) { return tensor.grad(); }>);
  }
  std::string Check(const std::string& text) {
    return Run("local moonring = require 'moonring' local tensor, scope = moonring.tensor, "
               "moonring.scope\n" +
               text)
        .message;
  }
};

TEST_F(Tensors, AreFreedAtAScopesEnd) {
  EXPECT_EQ(Check(R"lua(
    local leaked
    scope(function() leaked = tensor { 1, 2 } assert(leaked:sum():item() == 3) end)
    assert(tostring(leaked) == "Tensor (closed)")
    local done, text = pcall(leaked.sum, leaked)
    assert(not done and text:find("this tensor is closed", 1, true), text)
    leaked:close() -- as often as one likes
    local done = pcall(function() return leaked + 1 end)
    assert(not done)
  )lua"),
            "");
}

// The number 0 is true in Lua, so bool tensors give booleans.
TEST_F(Tensors, GiveBooleansOfBoolTensors) {
  EXPECT_EQ(Check(R"lua(
    local x = tensor { { 1, -2 }, { 3, 0 } }
    local rows = x:gt(0):tolist()
    assert(rows[1][1] == true and rows[1][2] == false and rows[2][2] == false)
    assert(x:gt(5):any():item() == false and x:eq(x):all():item() == true)
    assert(x:gt(0):sum():item() == 2) -- a count
    local fetched = require("moonring.native.tensor").fetch { x:gt(2), x[0] }
    assert(fetched[1][1][1] == false and fetched[1][2][1] == true and fetched[2][2] == -2)
    local mask = tensor { true, false }
    assert(mask:dtype() == "bool" and tensor(true):dtype() == "bool")
    assert(tensor({ true, false }, "fp64"):tolist()[1] == 1)
    assert(tensor({ 1, true }):dtype() == "fp32")
    assert(x[mask]:tolist()[1][2] == -2)
  )lua"),
            "");
}

TEST_F(Tensors, RefuseListsWithHolesAndOtherKeys) {
  EXPECT_EQ(Check(R"lua(
    local function refused(words, f, ...)
      local done, why = pcall(f, ...)
      assert(not done and tostring(why):find(words, 1, true), done and "accepted: " .. words
        or tostring(why))
    end
    local far = { 1, 2 }
    far[9] = 3
    refused("argument 1: element 3 is nil, and there is an element 9", tensor, far)
    refused("element 2 is nil, and there is an element 3: a list may not have holes", tensor,
      { 1, nil, 3 })
    refused("got a table with the field 'dtype'", tensor, { 1, 2, dtype = "fp64" })
    refused("which counts from 1, got a table with the element 0", tensor, { [0] = 1, 2 })
    refused("rows of different length: one of 1 elements beside one of 2", tensor,
      { { 1, 2 }, { 3 } })
    refused("expected numbers or lists of numbers, got a string among them", tensor, { "a" })
    refused("table (element 2 is nil, and there is an element 3", moonring.zeros, { 2, nil, 3 })
    refused("table (element 2 is nil", moonring.zeros, 2, nil, 3)
    local x = moonring.zeros(2, 3)
    refused("element 2 is nil", x.sum, x, { 0, nil, 1 })
    local sequence = moonring.comm.sequence
    refused("option 'documents': element 2: element 2 is nil, and there is an element 3", sequence,
      { documents = { { 1, 2 }, { 3, nil, 5 } } })
    refused("option 'documents': element 1: element 2: expected an integer, got 1.5", sequence,
      { documents = { { 1, 1.5 } } })
    refused("option 'documents': expected a list, got a table with the field 'ids'", sequence,
      { documents = { ids = { 1 } } })
  )lua"),
            "");
}

TEST_F(Tensors, RefuseLuasComparisons) {
  EXPECT_EQ(Check(R"lua(
    local x, y = tensor { 1, 2 }, tensor { 1, 2 }
    local function refused(words, f)
      local done, why = pcall(f)
      assert(not done and tostring(why):find(words, 1, true), tostring(why))
    end
    refused("script.lua:9: operator == of Tensor: INVALID_ARGUMENT: == and ~= compare handles",
      function() return x == y end)
    refused("x:equal(y) is one boolean", function() return x ~= y end)
    refused("operator < of Tensor", function() return x < y end)
    refused("operator <= of Tensor", function() return x >= y end)
    assert(x == x and x ~= nil and x ~= 1 and not rawequal(x, y) and x:equal(y) == true)
  )lua"),
            "");
}

// The function's own name, also if it was called through pcall or by an operator.
TEST_F(Tensors, NameTheFunctionAndTheArgument) {
  EXPECT_EQ(Check(R"lua(
    local x = tensor { 1, 2 }
    local function says(words, f, ...)
      local done, why = pcall(f, ...)
      assert(not done and tostring(why):find(words, 1, true) and why.code == "INVALID_ARGUMENT",
        tostring(why))
      assert(not tostring(why):find("?", 1, true), tostring(why))
    end
    says("Tensor:size: INVALID_ARGUMENT: argument 1: expected an integer, got a string", x.size, x,
      "a")
    says("Tensor:item: INVALID_ARGUMENT: the object before the colon: expected a Tensor, got 3",
      x.item, 3)
    says("script.lua:15: operator + of Tensor: INVALID_ARGUMENT: argument 2: expected a Tensor, "
      .. "got a table", function() return x + {} end)
    says("operator + of Tensor: INVALID_ARGUMENT: The size of tensor a (2) must match the size of "
      .. "tensor b (3)", function() return x + tensor { 1, 2, 3 } end)
    says("moonring.fetch: INVALID_ARGUMENT: argument 1: element 2: expected a Tensor, got false",
      require("moonring.native.tensor").fetch, { x, false })
  )lua"),
            "");
}

TEST_F(Tensors, RefuseWhatTheyDoNotTake) {
  EXPECT_EQ(Check("tensor({ 1 }, 'fp64', true)"),
            "script.lua:2: moonring.tensor: INVALID_ARGUMENT: expected at most 2, got 3 arguments");
  EXPECT_EQ(Check("assert((-tensor { 1 }):item() == -1)"), "");  // Lua hands it over twice
}

TEST_F(Tensors, AreWrittenInPlace) {
  EXPECT_EQ(Check(R"lua(
    local x = tensor({ { 1, 2 }, { 3, 4 } }, "fp64")
    assert(x:copy_(tensor { { 5, 6 }, { 7, 8 } }) == x)
    assert(x:sum():item() == 26 and x:dtype() == "fp64")
    x[0]:copy_(tensor { 1 }) -- a view, and broadcast
    assert(x:sum():item() == 17)
    local done, why = pcall(x.copy_, x, tensor { 1, 2, 3 })
    assert(not done and why:find "must match", why)
    -- As in PyTorch: a leaf that requires a gradient, and what backward still needs, is not written
    -- without an error.
    done, why = pcall(weight().copy_, weight(), x[1])
    assert(not done and why:find "leaf Variable that requires grad", why)
    local w, y = weight(), tensor({ 2, 3 }, "fp64")
    local sum = (w * y):sum()
    y:copy_(tensor { 0, 0 })
    done, why = pcall(sum.backward, sum)
    assert(not done and why:find "modified by an inplace operation", why)
    -- What is written carries its gradient on.
    local w, z = weight(), tensor({ 0, 0 }, "fp64")
    z:copy_(w * 3):sum():backward()
    assert(gradient(w):tolist()[1] == 3)
  )lua"),
            "");
}

TEST_F(Tensors, OfOutsideStayOpen) {
  EXPECT_EQ(
      Check("local x = tensor { 1 } scope(function() local y = x * 2 end) assert(x:item() == 1)"),
      "");
  EXPECT_EQ(Check("local x = tensor { 1 } assert(scope(function() return x end) == x) "
                  "assert(x:item() == 1)"),
            "");
}

TEST_F(Tensors, ThatAreReturnedOrKeptSurvive) {
  EXPECT_EQ(Check(R"lua(
    local kept, lost
    local a, n, b = scope(function(x, y)
      kept, lost = (tensor { 5 }):keep(), tensor { 6 }
      return tensor { x }, y, tensor { y }
    end, 3, 4)
    assert(a:item() == 3 and n == 4 and b:item() == 4,
      "what is returned stays, with its arguments' values")
    assert(kept:item() == 5)
    assert(not pcall(lost.item, lost))
    local inside = scope(function() return { tensor { 1 } } end)[1]
    assert(not pcall(inside.item, inside), "inside a table it is not returned by itself")
  )lua"),
            "");
}

TEST_F(Tensors, BelongToTheNextScopeOnceMovedOut) {
  EXPECT_EQ(Check(R"lua(
    local inner, twice
    local outer = scope(function()
      inner = scope(function()
        twice = scope(function() return (tensor { 9 }):keep() end)
        return tensor { 1 }
      end)
      assert(inner:item() == 1)
      assert(not pcall(twice.item, twice), "kept once: out of one scope")
      return tensor { 2 }
    end)
    assert(outer:item() == 2)
    assert(not pcall(inner.item, inner), "the outer scope has it, and has ended")
  )lua"),
            "");
}

TEST_F(Tensors, AreFreedWhenAScopeEndsByAnError) {
  EXPECT_EQ(Check(R"lua(
    local leaked
    local mine = {}
    local done, raised = pcall(scope, function() leaked = tensor { 1 } error(mine) end)
    assert(not done and raised == mine and not pcall(leaked.item, leaked))
    done, raised = pcall(scope, function() leaked = tensor { 1 } return leaked + tensor { { 1, 2 },
      { 3, 4 } } + tensor { 1, 2, 3 } end)
    assert(not done and raised:find "must match the size" and not pcall(leaked.item, leaked),
      raised)
    local x = tensor { 1 } -- the scopes that failed are gone: this one is in none
    assert(x:item() == 1)
    scope(function() end)
    assert(x:item() == 1)
  )lua"),
            "");
}

TEST_F(Tensors, LiveWhileCppHoldsThem) {
  EXPECT_EQ(Check("scope(function() hold(tensor { 1, 2, 3 } * 2) end)"), "");
  EXPECT_EQ(g_held.sum().item<double>(), 12);
}

// Closing a handle does not free storage that the backward needs.
TEST_F(Tensors, LiveWhileAutogradHoldsThem) {
  EXPECT_EQ(Check(R"lua(
    local w = weight()
    local loss = scope(function()
      local factor = tensor({ 3, 5 }, "fp64")
      return (w * factor * factor):sum() -- d/dw = factor^2
    end)
    loss:backward()
    local g = gradient(w):tolist()
    assert(g[1] == 9 and g[2] == 25, table.concat(g, " "))
  )lua"),
            "");
}

TEST_F(Tensors, NoGradRecordsNothingAndIsLeftByAnError) {
  EXPECT_EQ(Check(R"lua(
    assert(recording())
    local w = weight()
    assert(moonring.no_grad(function(x) assert(not recording()) return x end, 4) == 4)
    local loss = moonring.no_grad(function() return (w * 2):sum() end)
    assert(not loss:requires_grad() and gradient(w) == nil)
    assert(not pcall(moonring.no_grad, function() error "x" end))
    assert(recording(), "an error must not leave recording off")
  )lua"),
            "");
}

// Backward of a loss without a graph is an error, because it would silently train nothing. After
// `join`, it runs the backward with a zero gradient, whatever the loss depends on.
TEST_F(Tensors, BackwardOfNothingIsAnErrorUnlessAForwardIsJoined) {
  EXPECT_EQ(Check(R"lua(
    local w = weight()
    local log_probs = w * 3
    for _, loss in ipairs { tensor({ 0 }):sum(), log_probs:detach():sum(),
      moonring.no_grad(function() return log_probs:sum() end) } do
      local done, why = pcall(loss.backward, loss)
      assert(not done and why:find("this loss has no gradient", 1, true), tostring(why))
      assert(why:find("loss:backward(log_probs)", 1, true), why)
      done, why = pcall(loss.backward, loss, log_probs:detach())
      assert(not done and why:find("this loss has no gradient", 1, true), tostring(why))
    end
    tensor({ 7 }):sum():backward(log_probs)
    local g = gradient(w):tolist()
    assert(g[1] == 0 and g[2] == 0, table.concat(g, " "))
    log_probs = w * 3
    ;(log_probs[0] * 5):backward(log_probs) -- joined, it adds nothing
    g = gradient(w):tolist()
    assert(g[1] == 15 and g[2] == 0, table.concat(g, " "))
  )lua"),
            "");
}

TEST_F(Tensors, ArithmeticPromotesAsPyTorch) {
  EXPECT_EQ(Check(R"lua(
    local ints, halves = tensor({ 1, 2, 3 }, "int64"), tensor({ 1, 2, 3 }, "bf16")
    assert((ints * 2):dtype() == "int64" and (ints * 2):tolist()[3] == 6)
    assert((ints * 0.5):dtype() == "fp32" and (ints * 0.5):tolist()[1] == 0.5,
      "a fraction is not cut off")
    assert((1.5 - ints):tolist()[1] == 0.5 and (ints / 2):tolist()[1] == 0.5
      and (3 / ints):tolist()[2] == 1.5)
    assert((halves * 0.5):dtype() == "bf16" and (tensor({ 1 }, "fp64") / 3):item() == 1 / 3)
    assert((tensor { 1 } * 0.1):dtype() == "fp32" and (-ints):tolist()[1] == -1)
    local done, text = pcall(function() return ints + "x" end)
    assert(not done)
  )lua"),
            "");
}

TEST_F(Tensors, OperationsOfACustomLoss) {
  EXPECT_EQ(Check(R"lua(
    local function same(x, ...)
      local got, want = x:to("fp64"):tolist(), { ... }
      assert(#got == #want, #got)
      for i = 1, #want do assert(math.abs(got[i] - want[i]) < 1e-6,
        ("%d: %g, expected %g"):format(i, got[i], want[i])) end
    end
    local x = tensor { -2, 0, 3, 4 }
    same(x ^ 2, 4, 0, 9, 16)
    same(2 ^ tensor { 1, 3 }, 2, 8)
    same(x:square(), 4, 0, 9, 16)
    same(tensor({ 0, 9, 16 }):sqrt(), 0, 3, 4)
    same(x:sigmoid(), 0.1192029, 0.5, 0.9525741, 0.9820138)
    same(x:relu(), 0, 0, 3, 4)
    same(x:clamp(-1, 3), -1, 0, 3, 3)
    same(x:clamp(nil, 3), -2, 0, 3, 3)
    same(x:clamp(1), 1, 1, 3, 4)
    assert(not pcall(x.clamp, x))
    same(x:gt(0), 0, 0, 1, 1)
    same(x:lt(tensor { 0, 0, 4, 4 }), 1, 0, 1, 0)
    same(x:eq(3), 0, 0, 1, 0)
    same(x[{ { 0, 4, 2 } }], -2, 3)
    same(x[{ { 1, 4, 2 } }], 0, 4)
    same(x[tensor({ 3, 0, 0 }, "int64")], 4, -2, -2)
    same(x[x:gt(0)], 3, 4)
    same(moonring.cat { x:narrow(0, 0, 1), x:slice(0, 3, 4) }, -2, 4)
    assert(not pcall(moonring.cat, {}))
    assert(x:on(x) ~= nil)
    local w = weight()
    ;(w:square():sum() + w[tensor({ 0 }, "int64")]:sum()):backward()
    same(gradient(w), 3, 2)
  )lua"),
            "");
}

TEST_F(Tensors, ReadAndWriteNestedLists) {
  EXPECT_EQ(Check(R"lua(
    local x = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert(table.concat(x:shape(), "x") == "2x3" and x:numel() == 6 and x:tolist()[2][3] == 6)
    assert(table.concat(x[-1]:tolist(), " ") == "4 5 6" and x[{ { 1, 9 } }]:shape()[1] == 1)
    assert(#tensor {}:shape() == 1 and tensor {}:numel() == 0)
    for _, ragged in ipairs { { { 1, 2 }, { 3 } }, { 1, { 2 } }, { { 1 }, 2 },
      { { 1 }, { { 2 } } } } do
      local done, text = pcall(tensor, ragged)
      assert(not done and text:find "rows of different", tostring(text))
    end
    local done, text = pcall(tensor, { 1 }, "fp99")
    assert(not done and text:find("dtype: expected fp32, fp64, bf16, fp16, int64, int32, int16, "
      .. "int8, uint8, bool, complex64 or complex128, got 'fp99'", 1, true), text)
    done, text = pcall(x.item, x)
    assert(not done and text:find("item: expected a tensor of one element, got shape [2, 3]", 1,
      true), text)
    assert(tostring(x) == "tensor([[1., 2., 3.],\n        [4., 5., 6.]])"
      and tostring(x:sum()) == "tensor(21.)")
  )lua"),
            "");
}

// fetch returns several tensors at once. Each result equals that of tolist, for numbers of any
// dtype and shape; an empty list gives an empty list.
TEST_F(Tensors, AreFetchedTogether) {
  EXPECT_EQ(Check(R"lua(
    local native = require "moonring.native.tensor"
    assert(#native.fetch {} == 0)
    local x = tensor({ { 1, 2 }, { 3, 4 } }, "fp64")
    local all = native.fetch { x, x:sum(), tensor({ 7, 8 }, "int64"), tensor({}, "fp32"),
      weight() * 3 }
    assert(#all == 5 and all[1][2][1] == 3 and all[2] == 10 and all[3][2] == 8 and #all[4] == 0
      and all[5][1] == 3)
    x:close()
    assert(not pcall(native.fetch, { x }))
  )lua"),
            "");
}

// Values of several micro-batches are read at once, at the end, in the order of the requests. They
// outlive their scopes.
TEST_F(Tensors, AreReadLater) {
  EXPECT_EQ(Check(R"lua(
    local native, readings, metrics = require "moonring.native.tensor",
      require "moonring.base.readings", moonring.metrics
    local fetch, calls = native.fetch, 0
    native.fetch = function(list) calls = calls + 1 return fetch(list) end
    local later, seen, total = readings.new(), {}, {}
    for i = 1, 3 do
      scope(function()
        later:want({ tensor({ i, 10 * i }, "fp64"), 100 * i, weight():sum() * i },
          function(numbers) seen[i] = numbers end)
        metrics.add_later(later, total, { pair = { tensor({ i }, "fp64"):sum(), 2 }, )lua"
                  R"lua(both = tensor({ i, 4 }, "fp32"), alone = tensor({ i }, "fp64"):sum(), )lua"
                  R"lua(plain = { i, 1 } })
      end)
    end
    assert(#seen == 0 and next(total) == nil and calls == 0)
    later:read()
    assert(calls == 1, calls)
    for i = 1, 3 do assert(table.concat(seen[i], " ") == ("%d %d %d %d"):format(i, 10 * i, 100 * i,
      2 * i)) end
    for name, wanted in pairs { pair = "6 6", both = "6 12", alone = "6 3",
      plain = "6 3" } do assert(table.concat(total[name], " ") == wanted, name) end
    later:read() -- nothing is left
    assert(seen[3] and total.pair[1] == 6)
    assert(metrics.add({ x = { 1, 1 } }, { x = { tensor({ 2 }):sum(), 3 } }).x[2] == 4)
    local ok, why = pcall(metrics.add, {}, { x = { 1 } })
    assert(not ok and tostring(why):find("metric x: expected { sum, count }", 1, true), why)
    native.fetch = fetch
  )lua"),
            "");
}

// Tensors that are dropped are freed: 24 x 100 MB. LuaJIT only sees 24 small handles; Moonring
// counts their bytes and starts a garbage collection for each GiB, so at most about 11 tensors are
// resident at a time.
TEST_F(Tensors, ThatAreDroppedDoNotPileUp) {
  EXPECT_EQ(Check(R"lua(
    local before, peak = resident(), 0
    for i = 1, 24 do
      big(100)
      peak = math.max(peak, resident() - before)
    end
    assert(peak > 50e6, "this test measures nothing")
    assert(peak < 1.6e9, ("%.2f GB resident"):format(peak / 1e9))
  )lua"),
            "");
}

// The memory of operators' results also counts.
TEST_F(Tensors, MadeByOperationsDoNotPileUp) {
  EXPECT_EQ(Check(R"lua(
    local x = big(50)
    local before, peak = resident(), 0
    for i = 1, 24 do
      local y = (x * 2):abs() -- 100 MB a turn
      peak = math.max(peak, resident() - before)
    end
    assert(peak < 1.6e9, ("%.2f GB resident"):format(peak / 1e9))
  )lua"),
            "");
}

// A scope frees its tensors without waiting for the garbage collector.
TEST_F(Tensors, OfAScopeAreGoneAtItsEnd) {
  EXPECT_EQ(Check(R"lua(
    collectgarbage()
    local before, peak = resident(), 0
    for i = 1, 8 do
      scope(function() big(100) end)
      peak = math.max(peak, resident() - before)
    end
    assert(peak < 150e6, ("%.2f GB resident"):format(peak / 1e9))
  )lua"),
            "");
}

TEST_F(Tensors, ManySmallOnesInALongScopeAreForgotten) {
  EXPECT_EQ(Check(R"lua(
    local before = resident()
    scope(function()
      local x = tensor { 0 }
      for i = 1, 200000 do
        local y = x + 1
        y:close()
      end
    end)
    assert(resident() - before < 300e6, ("%.0f MB resident"):format((resident() - before) / 1e6))
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
