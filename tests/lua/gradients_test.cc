// Gradients in Lua: grad, second derivatives, activation checkpointing, functions with a backward
// in Lua, and modules whose weights are Parameters. The references are closed forms and finite
// differences.

#include <string>

#include "gtest/gtest.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

class Gradients : public VmTest {
 protected:
  std::string Check(const std::string& text) {
    return Run("local moonring = require 'moonring' local autograd, nn, ops, tensor = "
               "moonring.autograd, moonring.nn, moonring.ops, moonring.tensor "
               "local function leaf(values) return tensor(values, { dtype = 'fp64', "
               "requires_grad = true }) end " +
                   text,
               {::testing::TempDir()})
        .message;
  }
};

TEST_F(Gradients, OfOutputsWithRespectToInputs) {
  EXPECT_EQ(Check(R"lua(
    local x, y, z = leaf { 1, 2 }, leaf { 3, 4 }, leaf { 5 }
    local both = autograd.grad((x * y):sum(), { x, y })
    assert(both[1]:tolist()[2] == 4 and both[2]:tolist()[2] == 2 and x:grad() == nil)
    local of = autograd.grad({ x * 2, x * y }, x, { gradients = { x * 0 + 1, x * 0 + 10 } })
    assert(of:tolist()[1] == 32)
    assert(autograd.grad(x * y, x, { gradient = tensor({ 1, 0 }, "fp64") }):tolist()[2] == 0)
    local done, why = pcall(autograd.grad, (x * y):sum(), z)
    assert(not done and why:find("no output depends on input 1", 1, true), why)
    assert(autograd.grad((x * y):sum(), { x, z }, { allow_unused = true })[2] == nil)
    local loss = (x ^ 3):sum()
    loss:backward { retain_graph = true }
    loss:backward()
    assert(x:grad():tolist()[2] == 24)
    done, why = pcall(loss.backward, loss)
    assert(not done and why:find "second time", why)
    ;(x * 3):backward { gradient = tensor({ 1, 1 }, "fp64") }
    assert(x:grad():tolist()[2] == 27)
    done, why = pcall(function() (x * 3):backward { gradient = tensor { 1 } } end)
    assert(not done and why:find("expected shape [2], got [1]", 1, true), why)
    done, why = pcall(function() (x * 3):sum():backward { gradeint = 1 } end)
    assert(not done and why:find "did you mean", why)
  )lua"),
            "");
}

TEST_F(Gradients, SecondDerivativesOfOperatorsAndModules) {
  EXPECT_EQ(Check(R"lua(
    local x = leaf { 2, 3 }
    local first = autograd.grad((x ^ 4):sum(), x, { create_graph = true })
    local second = autograd.grad(first:sum(), x, { create_graph = true })
    assert(second:tolist()[1] == 48 and autograd.grad(second:sum(), x):tolist()[2] == 72)
    -- A penalty on a gradient, through a module, beside finite differences of its weight.
    local net = nn.sequential { nn.linear(2, 3, { seed = 1, dtype = "fp64" }), ops.tanh,
      nn.linear(3, 1, { seed = 2, dtype = "fp64" }) }
    local function penalty()
      local input = leaf { { 0.3, -0.4 }, { 1, 2 } }
      return autograd.grad(net(input):sum(), input, { create_graph = true }):square():sum()
    end
    penalty():backward()
    local weight = net[1].weight.parameter
    local got, h = weight:gradient()[{ 1, 0 }]:item(), 1e-5
    local function moved(by)
      weight:weight()[{ 1, 0 }] = weight:weight()[{ 1, 0 }] + by
      local value = penalty():item()
      weight:weight()[{ 1, 0 }] = weight:weight()[{ 1, 0 }] - by
      return value
    end
    local want = (moved(h) - moved(-h)) / (2 * h)
    assert(math.abs(got - want) < 1e-8 * math.max(1, math.abs(want)), got .. " " .. want)
  )lua"),
            "");
}

TEST_F(Gradients, AFunctionWithABackwardOfItsOwn) {
  EXPECT_EQ(Check(R"lua(
    local calls = 0
    local product = autograd.func { name = "product",
      forward = function(ctx, x, k, y)
        assert(not autograd.is_recording())
        ctx:save(x, y)
        ctx.k = k
        return x * y * k, x + y
      end,
      backward = function(ctx, of_product, of_sum)
        calls = calls + 1
        local x, y = ctx:saved()
        return of_product * y * ctx.k + of_sum, nil, of_product * x * ctx.k + of_sum
      end }
    local x, y = leaf { 2 }, leaf { 5 }
    local p, s = product(x, 3, y)
    assert(p:item() == 30 and s:item() == 7 and p:grad_fn() == "product")
    ;(p + 10 * s):sum():backward()
    assert(x:grad():item() == 25 and y:grad():item() == 16 and calls == 1)
    -- One result without a gradient gives zeros; no graph, no call.
    product(x, 1, y):sum():backward()
    assert(x:grad():item() == 30 and calls == 2)
    moonring.no_grad(product, x, 1, y)
    -- It may be differentiated again.
    local g = autograd.grad(product(x, 1, y):sum(), x, { create_graph = true })
    assert(autograd.grad(g:sum(), y):item() == 1)
    -- What was saved may not be written in between.
    local z = leaf { 1 } * 1
    local q = product(z, 1, y)
    z:add_(1)
    local done, why = pcall(function() q:sum():backward() end)
    assert(not done and why:find "modified by an inplace operation", why)
    -- In a coroutine, and nested: a backward inside a backward.
    local outer = autograd.func { forward = function(ctx, a) ctx:save(a) return a ^ 2 end,
      backward = function(ctx, of)
        local a = ctx:saved():detach():requires_grad_()
        local inner = autograd.with_grad(function() return product(a, 1, a):sum() end)
        return of * autograd.grad(inner, a)
      end }
    local result
    coroutine.wrap(function()
      local a = leaf { 4 }
      outer(a):sum():backward()
      result = a:grad():item()
    end)()
    assert(result == 8, result)
  )lua"),
            "");
}

TEST_F(Gradients, AnErrorInABackwardComesThroughAsItWasRaised) {
  EXPECT_EQ(Check(R"lua(
    local mine = { code = 7 }
    local function failing(backward)
      return autograd.func { name = "failing", forward = function(_, x) return x * 2 end,
        backward = backward }
    end
    local x = leaf { 1 }
    local done, why = pcall(function() failing(function() error(mine) end)(x):sum():backward() end)
    assert(not done and why == mine)
    done, why = pcall(function() failing(function() error "words" end)(x):sum():backward() end)
    assert(not done and why:find "script.lua:%d+: words", why)
    done, why = pcall(function() failing(function() return 1 end)(x):sum():backward() end)
    assert(not done and why:find "Tensor", why)
    done, why = pcall(function() failing(function(_, g) return g, g end)(x):sum():backward() end)
    assert(not done and why:find "gave 2 gradients for 1", why)
    done, why = pcall(function() failing(function() return tensor { 1, 2, 3 } end)(leaf { 1, 2 })
      :sum():backward() end)
    assert(not done and why:find "shape", why)
    -- Afterwards all is as before.
    failing(function(_, g) return g * 2 end)(x):sum():backward()
    assert(x:grad():item() == 2 and autograd.is_recording())
    done, why = pcall(failing(print), "text")
    assert(not done, "forward's own error")
    done, why = pcall(autograd.func, { forward = print, backward = print, nmae = "x" })
    assert(not done and why:find "did you mean 'name'", why)
  )lua"),
            "");
}

TEST_F(Gradients, ACheckpointMakesItsForwardAgain) {
  EXPECT_EQ(Check(R"lua(
    local runs = 0
    local net = nn.linear(3, 2, { seed = 4, dtype = "fp64" })
    local function f(x, k, list)
      runs = runs + 1
      return net(x):tanh() * k, list[1]
    end
    local x = leaf { { 1, 2, 3 }, { -1, 0, 1 } }
    local plain = f(x, 2, { 9 })
    plain:square():sum():backward()
    local want, of_x = net:parameters():list()[2]:gradient():clone(), x:grad():clone()
    net:parameters():clear_gradients()
    x:grad():zero_()
    runs = 0
    local function g(input, k) return (f(input, k, { 9 })) end
    local kept = autograd.checkpoint(g, x, 2)
    assert(runs == 1 and kept:equal(plain))
    kept:square():sum():backward()
    assert(runs == 2 and x:grad():equal(of_x))
    assert(net:parameters():list()[2]:gradient():equal(want))
    -- Weights alone are trained.
    net:parameters():clear_gradients()
    autograd.checkpoint(g, x:detach(), 2):square():sum():backward()
    assert(net:parameters():list()[2]:gradient():equal(want))
    local done, why = pcall(function()
      return autograd.grad(autograd.checkpoint(g, x, 2):sum(), x, { create_graph = true })
    end)
    assert(not done and why:find "checkpoint: a second derivative", why)
  )lua"),
            "");
}

TEST_F(Gradients, ModulesHaveWeightsByName) {
  EXPECT_EQ(Check(R"lua(
    local head = nn.module {
      layers = { nn.linear(4, 4, { seed = 1 }), nn.linear(4, 4, { seed = 2, bias = false }) },
      norm = nn.rms_norm(4), scale = nn.parameter(tensor { 2 }),
      forward = function(self, x)
        for _, layer in ipairs(self.layers) do x = layer(x):silu() end
        return self.norm(x) * self.scale:use()
      end }
    local names = {}
    for i, p in ipairs(head:parameters("head"):list()) do names[i] = p:name() end
    assert(table.concat(names, " ") == "head.layers.0.bias head.layers.0.weight "
      .. "head.layers.1.weight head.norm.weight head.scale", table.concat(names, " "))
    assert(head:numel() == 4 + 16 + 16 + 4 + 1)
    assert(tostring(head):find("(layers.0): Linear 4 -> 4", 1, true), tostring(head))
    -- The same first values for a seed; other ones for another.
    assert(nn.linear(4, 4, { seed = 1 }).weight:use():equal(head.layers[1].weight:use()))
    assert(not nn.linear(4, 4, { seed = 3 }).weight:use():equal(head.layers[1].weight:use()))
    local bound = head.layers[1].weight:use():abs():max():item()
    assert(bound <= 0.5 and bound > 0.3)
    -- A state saves and loads, whole or not at all.
    local path = arg[1] .. "/head.safetensors"
    head:save(path)
    local before = head.scale:use():item()
    moonring.no_grad(function() head.scale.parameter:weight():fill_(9) end)
    head:load(path)
    assert(head.scale:use():item() == before)
    local state = head:state()
    state.scale = nil
    local done, why = pcall(head.load_state, head, state)
    assert(not done and why:find "there is no 'scale'", why)
    state.scale = tensor { 1, 2 }
    done, why = pcall(head.load_state, head, state)
    assert(not done and why:find("expected shape [1], got [2]", 1, true), why)
    done, why = pcall(nn.linear, 2, 3, { bais = false })
    assert(not done and why:find "did you mean 'bias'", why)
    assert(not pcall(nn.module, {}) and not pcall(nn.sequential, {}))
    -- A weight of two places is one.
    local shared = nn.linear(2, 2)
    assert(nn.sequential({ shared, shared }):parameters():size() == 2)
    -- LoRA starts as its base, whose weights stay.
    local base = nn.linear(3, 3, { seed = 5, dtype = "fp64" })
    local lora = nn.lora(base, 3, 3, { rank = 2, seed = 6, dtype = "fp64" })
    local x = moonring.randn(2, 3, { seed = 7, dtype = "fp64" })
    assert(lora(x):equal(base(x)))
    lora(x):square():sum():backward()
    for _, p in ipairs(lora:parameters():list()) do
      assert((p:gradient() ~= nil) == (p:name():find "^lora" ~= nil), p:name())
    end
    assert(nn.embedding(5, 3)(tensor({ 4, 0 }, "int64")):size(1) == 3)
    assert(nn.mlp(4, 8)(moonring.randn(2, 4)):size(1) == 4)
    assert(nn.layer_norm(4)(moonring.randn(2, 4)):mean():abs():item() < 1e-6)
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
