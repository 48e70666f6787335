// Second derivatives through a native model (the option `weights` of Model:forward): products of
// the Hessian and a vector against finite differences of the fused model's gradients, on one rank
// and on two; first derivatives of several families; and what is refused.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kDerivativesBegin[] = R"lua(
  local moonring = require "moonring"
  local grad = moonring.autograd.grad
  local opt = moonring.flags { sp = 1, strategy = "zigzag-ring" }
  moonring.launch(opt.sp)
  local mesh = moonring.comm.mesh { sp = opt.sp, deadline = 60 }
  local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
  local function text(first, tokens)
    local ids = {}
    for i = 1, tokens do ids[i] = (first * 31 + i * i * 17) % 29 + 3 end
    return ids
  end
  local documents = { text(1, 150), text(2, 1), text(3, 70) }
  local sequence = moonring.comm.sequence { documents = documents, labels = documents }
  local ids, positions, targets, plan = attention:cut(sequence)
  local function load(options, folder)
    options = options or {}
    options.precision = "fp64"
    return moonring.model.load(moonring.model.open(folder or "model"), options)
  end
  local function loss_of(model, options)
    local hidden = model:forward(ids, positions, plan, options)
    return -moonring.objectives.log_prob(hidden, model:head(), targets,
      { weights = options and options.weights, dtype = "fp64" }):sum(), hidden:sum()
  end
  -- The weights as tensors of the graph, by name and in a list.
  local function used(model)
    local weights, list = {}, {}
    for i, parameter in ipairs(model:parameters():list()) do
      list[i] = parameter:use()
      weights[parameter:name()] = list[i]
    end
    return weights, list
  end
  local function native_gradients(model, options)
    local loss, joined = loss_of(model, options)
    loss:backward(joined)
    moonring.trainer.sum_gradients(model:parameters(), mesh)
    local gradients = {}
    for i, parameter in ipairs(model:parameters():list()) do
      gradients[i] = parameter:gradient() * 1
    end
    model:parameters():clear_gradients()
    return gradients
  end
  local function composed_gradients(model, options)
    local weights, list = used(model)
    options = options or {}
    options.weights = weights
    return grad(loss_of(model, options), list, { create_graph = true }), list
  end
  local function distance(a, b) -- of two lists, over all numbers
    local gap, norm = 0, 0
    for i, want in ipairs(b) do
      gap = gap + (a[i]:detach() - want):square():sum():item()
      norm = norm + want:square():sum():item()
    end
    return (gap / norm) ^ 0.5
  end
  local function summed(list)
    local sums = {}
    for i, each in ipairs(list) do sums[i] = mesh:sum_sp(each:detach() * 1) end
    return sums
  end
  local function refused(words, f, ...)
    local done, why = pcall(f, ...)
    local found = not done and tostring(why):find(words, 1, true)
    assert(found, done and "nothing was refused; expected: " .. words or tostring(why))
  end
)lua";

class SecondDerivativesTest : public Workplace {
 protected:
  SecondDerivativesTest() { WriteModel("model"); }

  CommandResult RunScript(const std::string& text, const Words& words = {}) const {
    Write("mine.lua", kDerivativesBegin + text);
    return Run(Words{"mine.lua"} + words);
  }
};

TEST_F(SecondDerivativesTest, HessianTimesVectorIsThatOfDifferences) {
  const std::string compare = R"lua(
    for _, lora in ipairs { false, true } do
      local model = load { frozen = lora }
      if lora then
        model = moonring.model.adapt(model, { rank = 2, seed = 3 })
        for i, parameter in ipairs(model:parameters():list()) do -- B is zero at first
          local weight = parameter:weight()
          weight:add_((moonring.arange(weight:numel()):to "fp64" * 1.3 + i):sin():view_as(weight)
            * 0.05)
        end
      end
      local gradients, list = composed_gradients(model)
      local worst = distance(summed(gradients), native_gradients(model))
      assert(worst < 1e-11, "gradients " .. worst)
      local along, vector = 0, {}
      for i, gradient in ipairs(gradients) do
        vector[i] = (moonring.arange(gradient:numel()):to "fp64" * 0.7 + i):cos():view_as(gradient)
        along = along + (gradient * vector[i]):sum()
      end
      local products = summed(grad(along, list, { retain_graph = true }))
      local function moved(step)
        for i, parameter in ipairs(model:parameters():list()) do
          parameter:weight():add_(vector[i], { alpha = step })
        end
      end
      local step = 2e-6
      moved(step)
      local above = native_gradients(model)
      moved(-2 * step)
      local below = native_gradients(model)
      moved(step)
      local differences = {}
      for i in ipairs(vector) do differences[i] = (above[i] - below[i]) / (2 * step) end
      worst = distance(products, differences)
      assert(worst < 1e-7, "products " .. worst)
      -- The same, added to the parameters' gradients through use().
      along:backward()
      moonring.trainer.sum_gradients(model:parameters(), mesh)
      local added = {}
      for i, parameter in ipairs(model:parameters():list()) do
        added[i] = parameter:gradient() * 1
      end
      assert(distance(added, products) < 1e-12)
    end
  )lua";
  EXPECT_THAT(RunScript(compare), Succeeds());
  EXPECT_THAT(RunScript(compare, {"sp=2"}), Succeeds());
  EXPECT_THAT(RunScript(compare, {"sp=2", "strategy=ulysses"}), Succeeds());
}

TEST_F(SecondDerivativesTest, OtherFamiliesAndHooks) {
  std::string folders;
  for (const char* family : {"gemma2", "gemma3", "qwen3", "olmo2", "phi3"})
    folders += "'" + Runfile(std::string("tests/golden/families/") + family) + "', ";
  EXPECT_THAT(RunScript("local folders = { " + folders + "}\n" + R"lua(
    for _, folder in ipairs(folders) do
      local model = load({}, folder)
      local worst = distance(composed_gradients(model), native_gradients(model))
      assert(worst < 1e-10, folder .. " " .. worst)
    end
    local slopes = moonring.tensor({ 0.1, 0.2, 0.3, 0.4 }, "fp64"):view(-1, 1, 1)
    local function options()
      return { inside = { [2] = { bias = function(tile)
        local far = tile.places:unsqueeze(1) - moonring.arange(tile.k:size(0))
        return far:to(tile.q) * -slopes + tile.q:sum(2):t():unsqueeze(2):sin()
      end } } }
    end
    local model = load()
    local worst = distance(composed_gradients(model, options()), native_gradients(model, options()))
    assert(worst < 1e-11, worst)
    assert(distance(native_gradients(model), native_gradients(model, options())) > 1e-3)
  )lua"),
              Succeeds());
}

TEST_F(SecondDerivativesTest, MistakesAreNamed) {
  EXPECT_THAT(RunScript(R"lua(
    local model = load()
    for _, part in ipairs { "objectives.log_prob", "block runner" } do
      local loss, joined = loss_of(model)
      refused(part .. ": a second derivative is not available. Where it is a part of a model: "
        .. "model:forward and objectives.log_prob with the option weights can be differentiated "
        .. "again", function()
          (part == "block runner" and joined or loss):backward { create_graph = true }
        end)
    end
    model:parameters():clear_gradients()
    local weights = used(model)
    refused("weights: 'model.norm.weigth' is no weight of this model (did you mean "
      .. "'model.norm.weight'?)", loss_of, model, { weights = { ["model.norm.weigth"] =
      weights["model.norm.weight"] } })
    refused("weights: model.norm.weight is Double [3] on cpu, expected numbers [32] on cpu",
      loss_of, model, { weights = { ["model.norm.weight"] = moonring.zeros(3):to "fp64" } })
    refused("weights: not with statistics or label_smoothing", moonring.objectives.log_prob,
      model:forward(ids, positions, plan), model:head(), targets,
      { weights = weights, label_smoothing = 0.1 })
    -- What cannot be composed is named.
    local other = moonring.model.adapt(load { frozen = true }, { oft_block_size = 8 })
    refused("projection: a second derivative is not available", composed_gradients, other)
  )lua"),
              Succeeds());
}

}  // namespace
}  // namespace moonring::testing
