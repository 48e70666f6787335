// Slips of scripts on several ranks that would change the numbers without a word: other examples on
// each rank, a sum over ranks that is missing or made twice, and weights in no list of parameters.
// Each is refused on every rank, with the line of the script.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class RankSlipsTest : public Workplace {
 protected:
  RankSlipsTest() { WriteModel("model"); }

  // Runs mine.lua on `ranks` ranks, in sp groups of `sp`. It defines a model with an objective, and
  // continues with `text`.
  CommandResult RunScript(const std::string& text, int ranks, int sp) const {
    Write("mine.lua", kBegin + text);
    return Run(OnRanks(ranks) + Words{"mine.lua", std::to_string(sp)});
  }

 private:
  static constexpr char kBegin[] = R"lua(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh { sp = tonumber(arg[1]), deadline = 60 }
    local model = moonring.model.load(moonring.model.open "model")
    local attention = moonring.attention.create { mesh = mesh }
    local own = { level = "token" }
    function own.count(batch) return batch:count_targets() end
    function own.loss(_, log_probs) return -log_probs:sum() end
    local function engine_of(more)
      local parts = { mesh = mesh, model = model, attention = attention, objective = own }
      for name, value in pairs(more or {}) do parts[name] = value end
      return moonring.engine.new(parts)
    end
    local function examples_of(first, last)
      local examples = {}
      for i = first, last do
        local ids = {}
        for t = 1, 5 + i % 3 do ids[t] = (7 * i + 3 * t) % 200 + 1 end
        examples[#examples + 1] = { ids = ids }
      end
      return examples
    end
    local function step_of(examples, over)
      return moonring.data.step { examples = examples, micro_batch_tokens = 16, mesh = over }
    end
    local function refused(code, words, f, ...)
      local done, why = pcall(f, ...)
      assert(not done, "nothing was refused; expected: " .. words)
      local found = tostring(why):find(words, 1, true)
      assert(found and why.code == code, tostring(why))
      assert(why.place == "" or why.place:find "^mine.lua:%d+", why.place)
    end
    local function gradients()
      local all = {}
      for i, parameter in ipairs(model:parameters():list()) do
        all[i] = parameter:gradient():clone()
      end
      return all
    end
    local function compare(all, wanted)
      for i, gradient in ipairs(all) do
        local difference = (gradient - wanted[i]):norm():item()
        assert(difference <= 1e-5 * wanted[i]:norm():item(), i .. ": " .. difference)
      end
    end
  )lua";
};

TEST_F(RankSlipsTest, OtherExamplesOnEachRank) {
  const std::string text = R"lua(
    local engine, dp = engine_of(), mesh:dp_size()
    refused("INVALID_ARGUMENT", "the ranks passed different examples; rank " .. mesh:rank()
      .. " passed 2", step_of, examples_of(mesh:rank(), mesh:rank() + 1), mesh)
    -- A list for all, and a list for each sp group, give the same step.
    local whole = engine:backward(step_of(examples_of(0, 2 * dp - 1), mesh), 1)
    local wanted = gradients()
    model:parameters():clear_gradients()
    local first = 2 * mesh:dp_rank()
    local apart = engine:backward(step_of(examples_of(first, first + 1)), 2)
    assert(math.abs(apart - whole) < 1e-5 * whole, apart .. " instead of " .. whole)
    compare(gradients(), wanted)
  )lua";
  EXPECT_THAT(RunScript(text, 2, 1), Succeeds());
  EXPECT_THAT(RunScript(text, 4, 2), Succeeds());
}

TEST_F(RankSlipsTest, SumsThatAreMissingOrMadeTwice) {
  const std::string text = R"lua(
    local documents = { { 1, 2, 3 + mesh:dp_rank(), 4, 5, 6 } }
    local sequence = moonring.comm.sequence { documents = documents }
    local ids, positions, targets, plan = attention:cut(sequence)
    local function backward()
      local log_probs = moonring.objectives.log_prob(model:forward(ids, positions, plan),
        model:head(), targets)
      local loss = -log_probs:sum()
      loss:backward(log_probs:sum())
    end
    local twice, late = "is summed over the ranks already", "a backward after sum_gradients"
    local alone = "is that of this rank alone: expected"
    local parameters = model:parameters()
    local sgd, sum = moonring.trainer.sgd(parameters), moonring.trainer.sum_gradients
    backward()
    refused("FAILED_PRECONDITION", alone, sgd.step, sgd, 0)
    sum(parameters, mesh)
    local once = gradients()
    refused("FAILED_PRECONDITION", twice, sum, parameters, mesh)
    refused("INVALID_ARGUMENT", late, backward)
    compare(gradients(), once)
    sgd:step(0)
    parameters:clear_gradients()
    backward()
    sum(parameters, mesh)
    compare(gradients(), once)
    parameters:clear_gradients()

    for _, stage in ipairs { 0, 1, 2 } do
      local net = stage == 0 and model or moonring.model.load(moonring.model.open "model")
      model = net
      local states = moonring.trainer.zero { mesh = mesh, stage = stage }:states(net:parameters())
      local adamw = moonring.trainer.adamw(states:parameters())
      for _ = 1, 2 do
        backward()
        states:sum_gradients()
        local norm = states:norm()
        refused("FAILED_PRECONDITION", twice, states.sum_gradients, states)
        refused("INVALID_ARGUMENT", late, backward)
        assert(states:norm() == norm, stage)
        if stage > 0 then
          refused("FAILED_PRECONDITION", "expected states:sum_gradients()", sum, net:parameters(),
            mesh)
        end
        adamw:step(0)
        states:publish()
        states:clear_gradients()
      end
    end
  )lua";
  EXPECT_THAT(RunScript(text, 2, 1), Succeeds());
  EXPECT_THAT(RunScript(text, 4, 2), Succeeds());
}

TEST_F(RankSlipsTest, WeightsInNoListOfParameters) {
  const std::string text = R"lua(
    local head = moonring.nn.linear(32, 1)
    local unused = moonring.comm.parameter("unused", moonring.zeros(3))
    local step = step_of(examples_of(0, 2 * mesh:dp_size() - 1), mesh)
    function own.values(batch, hidden)
      -- Only one rank reaches the head, and all ranks are told.
      local scores = mesh:rank() == 0 and head(hidden):sum() or hidden:sum()
      return { log_probs = batch:token_log_probs(model, hidden), scores = scores }
    end
    function own.loss(_, values) return values.scores - values.log_probs:sum() end
    local engine = engine_of()
    refused("INVALID_ARGUMENT", "step 1: the loss reaches parameters that nothing would train: ",
      engine.backward, engine, step, 1)
    model:parameters():clear_gradients()
    head:parameters():clear_gradients()
    own.parameters = head:parameters():join(moonring.comm.parameters { unused })
    local printed
    local print_before = print
    print = function(line) printed = line end
    assert(engine_of():backward(step, 1))
    print = print_before
    assert(mesh:rank() > 0 or printed:find("depend on 1 of %d+ parameters %(unused%)"), printed)
  )lua";
  EXPECT_THAT(RunScript(text, 2, 1), Succeeds());
  EXPECT_THAT(RunScript(text, 2, 2), Succeeds());
}

}  // namespace
}  // namespace moonring::testing
