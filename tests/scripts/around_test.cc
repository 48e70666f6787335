// Scripts read hidden states and change them by hook functions around blocks (`around`): in every
// recompute mode, in training, evaluation and generation; and the error messages. invariance_test
// and zero_test check that results do not depend on the number of ranks.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class AroundTest : public Workplace {
 protected:
  AroundTest() { WriteModel("model"); }

  // Runs `text` as mine.lua, on a document of 700 tokens, so that the blocks' inputs are large
  // enough to be offloaded to a disk.
  CommandResult RunScript(const std::string& text) const {
    Write("mine.lua", kBegin + text);
    return Run({"mine.lua"});
  }
  // Returns "mine.lua:N", where N is the line's number in the file and `line` its number in `text`
  // (from 1).
  static std::string Line(int line) {
    const std::string begin = kBegin;
    return "mine.lua:" + std::to_string(line + std::count(begin.begin(), begin.end(), '\n'));
  }

  // Trains with config.yaml; `text` is Lua code that changes the objective.
  CommandResult Train(const std::string& text) const {
    Write("train.lua",
          "local moonring = require 'moonring'\n"
          "local run = moonring.run.open(moonring.config.load('config.yaml', {}))\n" +
              text +
              "for step in run:steps() do\n"
              "  run:log(run:update(step))\n"
              "  run:evaluate_if_due()\n"
              "end\n"
              "run:finish()\n");
    return Run({"train.lua"});
  }

 private:
  static constexpr char kBegin[] = R"lua(
      local moonring = require "moonring"
      local mesh = moonring.comm.mesh { sp = 1, deadline = 60 }
      local attention = moonring.attention.create { mesh = mesh }
      local document = {}
      for i = 1, 700 do document[i] = (i * i + 7 * i) % 600 + 3 end
      local sequence = moonring.comm.sequence { documents = { document } }
      local ids, positions, targets, plan = attention:cut(sequence)
      local function load(options)
        return moonring.model.load(moonring.model.open "model", options)
      end
      local function refused(words, f, ...)
        local done, text = pcall(f, ...)
        local found = not done and text:find(words, 1, true)
        assert(found, done and "nothing was refused; expected: " .. words or text)
      end
    )lua";
};

TEST_F(AroundTest, GradientsAreTheSameInEveryMode) {
  EXPECT_THAT(RunScript(R"lua(
    local calls = 0
    local around = { [1] = function(hidden)
      calls = calls + 1
      return hidden * 1.5 + hidden:sigmoid()
    end }
    local function gradients(options, adapter)
      local model = load(options)
      if adapter then model = moonring.model.adapt(model, adapter) end
      local hidden, states = model:forward(ids, positions, plan,
        { states = { 0, 2, 1 }, around = around })
      assert(model:norm(states[2]):eq(hidden):to("fp64"):mean():item() == 1)
      local loss = hidden:sum() + states[1]:square():sum() + states[2]:sigmoid():sum()
      calls = 0
      loss:backward()
      assert(calls == 0, "Lua ran in backward")
      model:save_gradients "gradients.safetensors"
      return moonring.system.read "gradients.safetensors"
    end
    local wanted = gradients { recompute = "none", tile_bytes = 0 }
    for _, recompute in ipairs { "block", "selective" } do
      assert(gradients { recompute = recompute, tile_bytes = 0 } == wanted, recompute)
      assert(gradients { recompute = recompute, tile_bytes = 0, activation_offload = "disk",
        activation_dir = "." } == wanted, recompute .. " on a disk")
    end
    assert(gradients { recompute = "selective", whole_layers = 1, tile_bytes = 0 } == wanted)
    local lora = { rank = 2, seed = 3 }
    wanted = gradients({ frozen = true, recompute = "none", tile_bytes = 0 }, lora)
    for _, recompute in ipairs { "block", "selective" } do
      assert(gradients({ frozen = true, recompute = recompute, tile_bytes = 0 }, lora) == wanted)
    end
  )lua"),
              Succeeds());
}

TEST_F(AroundTest, MistakesAreNamed) {
  EXPECT_THAT(RunScript(R"lua(
    local model = load()
    local function forward(options) return model:forward(ids, positions, plan, options) end
    local function around(f) return forward { around = { [1] = f } } end
    refused("around: after layer 1 (model.layers.0) it gave Float [32] on cpu, expected Float "
      .. "[700, 32] on cpu", around, function(hidden) return hidden[0] end)
    refused("after layer 1 (model.layers.0) it gave Double [700, 32]", around,
      function(hidden) return hidden:to "fp64" end)
    refused("around: after layer 1 it gave a number, expected a Tensor, or nothing", around,
      function() return 3 end)
    refused("after layer 1 it gave a tensor that is closed", around, function(hidden)
      hidden:close()
      return hidden
    end)
    refused("option 'around': expected a function, got a number", forward, { around = 3 })
    refused("option 'around': layer 3, expected 0 (after the embedding) to 2 (after the last "
      .. "block)", forward, { around = { [3] = print } })
    refused("option 'around': layer norm, expected 0", forward, { around = { norm = print } })
    refused("option 'around': layer 2: expected a function, got a string", forward,
      { around = { [2] = "print" } })
    refused("states: layer 3, expected 0 (after the embedding) to 2 (after the last block)",
      forward, { states = { 3 } })
    refused("upto: layer -1, expected 0", forward, { upto = -1 })
    refused("norm: hidden states Double [700, 32] on cpu, expected Float [T, 32]", model.norm,
      model, forward():to "fp64")
    -- What a function sees and makes is closed at its end, but for what is kept.
    local seen, kept, made
    local hidden, states = forward { states = { 1 }, around = function(layer, hidden)
      if layer ~= 1 then return end
      seen, made, kept = hidden, hidden * 2, (hidden * 3):keep()
      return made
    end }
    refused("is closed", seen.sum, seen)
    refused("is closed", made.sum, made)
    assert((kept - states[1] * 1.5):abs():sum():item() < 1e-3)
    -- After an error the model is as it was.
    local before = forward()
    assert(not pcall(around, function() error "mine" end))
    assert(forward():eq(before):to("fp64"):mean():item() == 1)
    assert(not pcall(model.generate, model, { 1, 2 }, { around = function() error "mine" end }))
    -- Whatever the function closes, or leaves by.
    local other = load()
    local whole = other:forward(ids, positions, plan, { around = function(_, hidden)
      other:close()
      hidden:close()
    end })
    assert(whole:eq(before):to("fp64"):mean():item() == 1)
    refused("attempt to yield", coroutine.wrap(function() around(coroutine.yield) end))
    -- One object that is called, as a module is.
    local twice = setmetatable({}, { __call = function(_, hidden) return hidden * 2 end })
    local a, b = forward { around = { [0] = twice } }, forward { around = { [0] = function(hidden)
      return hidden + hidden
    end } }
    assert(a:eq(b):to("fp64"):mean():item() == 1)
    local place, module = model:first_nonfinite(ids, positions, plan, { around = {
      [1] = function(hidden) return hidden / 0 end } })
    assert(place == 2 and module == "model.layers.0", module)
    place = model:first_nonfinite(ids, positions, plan, { upto = 0, around = {
      [1] = function(hidden) return hidden / 0 end } })
    assert(place == 0)
  )lua"),
              Succeeds());
  const CommandResult result = RunScript(
      "local none = {} local function steer(hidden) return hidden + none.x.y end\n"
      "local model = load()\n"
      "local function go() model:forward(ids, positions, plan, { around = { steer } }) end\n"
      "go()\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("moonring: " + Line(1) + ": "));
  EXPECT_THAT(result.err, AllOf(HasSubstr(Line(1) + ": in the function of line "),
                                HasSubstr(Line(3) + ": in function 'go'")))
      << result.err;
}

// Greedy generation under a hook function gives the tokens of a full forward for each new token.
TEST_F(AroundTest, AnswersAreSteered) {
  EXPECT_THAT(RunScript(R"lua(
    local model = load()
    local around = { [1] = function(hidden) return hidden * 0.5 - hidden:sigmoid() end,
      [2] = function(hidden) return hidden:exp() end }
    local prompt = { 5, 9, 2, 40 }
    local function next_id(all, with)
      local sequence = moonring.comm.sequence { documents = { all } }
      local ids, positions, targets, plan = attention:cut(sequence)
      local _, statistics = moonring.objectives.log_prob(model:forward(ids, positions, plan,
        { around = with }), model:head(), ids, { statistics = { "greedy" } })
      return statistics.greedy:tolist()[#all]
    end
    local function wanted(with)
      local all, new = { unpack(prompt) }, {}
      for i = 1, 8 do
        new[i] = next_id(all, with)
        all[#all + 1] = new[i]
      end
      return table.concat(new, " ")
    end
    local function said(with)
      return table.concat(model:generate(prompt, { max_new_tokens = 8, around = with }), " ")
    end
    assert(said(around) == wanted(around), said(around))
    assert(said() == wanted() and said() ~= said(around), said())
    -- With a function for each token beside it.
    local ids = {}
    model:generate(prompt, { max_new_tokens = 8, around = around }, function(id)
      ids[#ids + 1] = id
    end)
    assert(table.concat(ids, " ") == wanted(around))
  )lua"),
              Succeeds());
}

// With a learning rate of 0, the evaluation loss equals the training loss on the same rows, with a
// hook function and without one.
TEST_F(AroundTest, InTrainingAndEvaluationAlike) {
  WriteConfig(
      "learning_rate: 0\nmax_steps: 1\nper_device_train_batch_size: 10\n"
      "gradient_accumulation_steps: 1\neval_dataset: rows\neval_strategy: steps\neval_steps: 1\n"
      "count: targets\nsave_strategy: no\nsample_prompt: hello\noverwrite_output_dir: true\n");
  const std::string losses =
      "local update, evaluate = run.update, run.evaluate\n"
      "function run:update(step) self.told = update(self, step) return self.told end\n"
      "function run:evaluate()\n"
      "  local numbers = evaluate(self)\n"
      "  print(('%.9f %.9f'):format(self.told.loss, numbers.eval_loss_per_token))\n"
      "  return numbers\n"
      "end\n";
  const CommandResult plain = Train(losses), steered = Train(losses + R"lua(
run.objective.around = { [1] = function(hidden, batch)
  assert(not batch or batch.positions:numel() * 32 == hidden:numel())
  return hidden * -3
end }
)lua");
  ASSERT_THAT(plain, Succeeds());
  ASSERT_THAT(steered, Succeeds());
  const auto numbers = [](const CommandResult& result) {
    const size_t at = result.out.find("before training") == std::string::npos
                          ? 0
                          : result.out.find("\n", result.out.find("\n") + 1) + 1;
    return std::pair{std::stod(result.out.substr(at)),
                     std::stod(result.out.substr(result.out.find(" ", at)))};
  };
  for (const CommandResult* result : {&plain, &steered}) {
    const auto [training, evaluation] = numbers(*result);
    EXPECT_NEAR(training, evaluation, 1e-6 * training);
  }
  EXPECT_GT(std::abs(numbers(plain).first - numbers(steered).first), 1e-3);
  EXPECT_NE(plain.out.substr(0, plain.out.find("after training")),
            steered.out.substr(0, steered.out.find("after training")));
}

TEST_F(AroundTest, ARunNamesTheNonFiniteLayer) {
  WriteConfig("save_strategy: no\noverwrite_output_dir: true\n");
  const CommandResult result =
      Train("run.objective.around = { [1] = function(hidden) return hidden / 0 end }\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("first after model.layers.0"));
  const CommandResult bad = Train("run.objective.around = { [1] = 'hidden' }\n");
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_THAT(bad.err, HasSubstr("objective: around: layer 1: expected a function, got a string"));
}

}  // namespace
}  // namespace moonring::testing
