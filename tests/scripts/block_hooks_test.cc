// Functions of scripts inside blocks (`inside`): the same gradients in every recompute mode and on
// any ranks, with LoRA, ZeRO-3 and offload; two ways to write one mask; the examples MoBA and top
// blocks; and the error messages. hooked_attention_test compares attention itself with a dense
// reference.

#include <cmath>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The start of the scripts: documents that several ranks share, hooks of every kind in both blocks
// of a model in fp64, and gradients summed over the ranks.
constexpr char kHooksBegin[] = R"lua(
  local moonring = require "moonring"
  local opt = moonring.flags { sp = 1, strategy = "zigzag-ring" }
  moonring.launch(opt.sp)
  local mesh = moonring.comm.mesh { sp = opt.sp, deadline = 60 }
  local attention = moonring.attention.create { mesh = mesh, strategy = opt.strategy }
  local function text(first, tokens)
    local ids = {}
    for i = 1, tokens do ids[i] = (first * 31 + i * i * 17) % 600 + 3 end
    return ids
  end
  local documents = { text(1, 300), text(2, 1), text(3, 70), text(4, 201) }
  local sequence = moonring.comm.sequence { documents = documents, labels = documents }
  local ids, positions, targets, plan = attention:cut(sequence)
  local function load(options)
    options = options or {}
    options.precision = options.precision or "fp64"
    return moonring.model.load(moonring.model.open "model", options)
  end
  local gate = moonring.comm.parameter("gate", (moonring.arange(32 * 4):to "fp64" * 0.7):sin()
    :view(32, 4) * 0.1)
  local slopes = moonring.comm.parameter("slopes", moonring.tensor({ 0.1, 0.2, 0.3, 0.4 }, "fp64"))
  local own = moonring.comm.parameters { gate, slopes }

  local function nearest(tile) -- each query's own block and the best other one, by mean keys
    local count = math.ceil(tile.k:size(0) / 16)
    local sums = tile.k:new_zeros { count, 2, tile.k:size(2) }
    sums:index_add_(0, moonring.arange(tile.k:size(0)):floor_divide(16), tile.k)
    local scores = moonring.ops.einsum("qkgd,bkd->qkgb",
      { tile.q:view(tile.q:size(0), 2, 2, -1), sums }):sum(2)
    local at = tile.places:floor_divide(16):view(-1, 1, 1)
    local block = moonring.arange(count)
    scores = scores:masked_fill(block:gt(at), -math.huge):masked_fill(block:eq(at), math.huge)
    local _, best = scores:topk(math.min(2, count), -1)
    return scores:zeros_like():scatter(-1, best, 1):gt(0)
  end

  local hooks = {
    [1] = {
      given = function() return { gate = gate:use(), slopes = slopes:use() } end,
      qkv = function(q, k, v, given)
        return q * (1 + given.slopes:view(1, -1, 1)), k:sin() + k, v * 2
      end,
      rows = function(x, given) return { gate = (x:matmul(given.gate)):logsigmoid() } end,
      bias = function(tile)
        local sums = tile.rows.gate:cumsum(0)
        return sums:index_select(0, tile.places):t():unsqueeze(2) - sums:t():unsqueeze(1)
      end,
    },
    [2] = { blocks = nearest, block_size = 16 },
  }

  -- Sums of logits' gradients over the ranks: by name, of the model's parameters and the hooks'.
  local function run(model, options)
    local hidden = model:forward(ids, positions, plan, options)
    local loss = -moonring.objectives.log_prob(hidden, model:head(), targets):sum()
    loss:backward(hidden:sum())
    local gradients = {}
    for _, parameters in ipairs { model:parameters(), own } do
      moonring.trainer.sum_gradients(parameters, mesh)
      for _, parameter in ipairs(parameters:list()) do
        if parameter:trainable() then
          gradients[parameter:name()] = parameter:gradient() and parameter:gradient() * 1 or false
        end
      end
      parameters:clear_gradients()
    end
    return mesh:sum(loss:item()), gradients
  end
  -- The greatest relative difference of losses and gradients.
  local function gap(a, of_a, b, of_b)
    local worst = math.abs(a / b - 1)
    for name, want in pairs(of_b) do
      local got = of_a[name]
      assert((got and true) == (want and true), name)
      if want then
        local norm = want:square():sum():item() ^ 0.5
        worst = math.max(worst, (got - want):square():sum():item() ^ 0.5 / math.max(norm, 1e-30))
      end
    end
    return worst
  end
  local function refused(words, f, ...)
    local done, why = pcall(f, ...)
    local found = not done and tostring(why):find(words, 1, true)
    assert(found, done and "nothing was refused; expected: " .. words or tostring(why))
  end
)lua";

class BlockHooksTest : public Workplace {
 protected:
  BlockHooksTest() { WriteModel("model"); }

  CommandResult RunScript(const std::string& text, const Words& words = {}) const {
    Write("mine.lua", kHooksBegin + text);
    Words all = {"mine.lua"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
};

TEST_F(BlockHooksTest, GradientsAreTheSameInEveryMode) {
  EXPECT_THAT(RunScript(R"lua(
    local want, gradients = run(load { recompute = "none" }, { inside = hooks })
    assert(math.abs(run(load()) / want - 1) > 1e-3)
    assert(gradients.gate:abs():sum():item() > 1e-6)
    assert(gradients.slopes:abs():sum():item() > 1e-6)
    for _, recompute in ipairs { "block", "selective" } do
      for _, more in ipairs { {}, { activation_offload = "disk", activation_dir = "." },
        { whole_layers = 1 } } do
        more.recompute = recompute
        local worst = gap(want, gradients, run(load(more), { inside = hooks }))
        assert(worst < 1e-12, recompute .. " " .. worst)
      end
    end
    -- LoRA over a frozen model; the hooks' own weights are trained too.
    local function lora(options)
      options.frozen = true
      return moonring.model.adapt(load(options), { rank = 2, seed = 3 })
    end
    want, gradients = run(lora { recompute = "none" }, { inside = hooks })
    assert(gradients.gate and gradients.slopes)
    for _, recompute in ipairs { "block", "selective" } do
      local worst = gap(want, gradients, run(lora { recompute = recompute }, { inside = hooks }))
      assert(worst < 1e-12, recompute .. " " .. worst)
    end
    -- A frozen model: only what the hooks are given is trained.
    want, gradients = run(load { frozen = true }, { inside = hooks })
    assert(gradients.gate:abs():sum():item() > 1e-6)
  )lua"),
              Succeeds());
}

// One mask in two ways, and a choice of all blocks, which equals the fused kernels. The bias is
// compared with differences.
TEST_F(BlockHooksTest, AgreesWithOtherWays) {
  EXPECT_THAT(RunScript(R"lua(
    local model = load()
    local chosen = { [2] = hooks[2] }
    local as_bias = { [2] = { bias = function(tile)
      local blocks = moonring.autograd.no_grad(nearest, tile):repeat_interleave(2, 1)
      local keys = blocks:repeat_interleave(16, 2):narrow(2, 0, tile.k:size(0))
      return keys:logical_not():to "fp64":transpose(0, 1) * -1e9
    end } }
    local want, gradients = run(model, { inside = chosen })
    local worst = gap(want, gradients, run(model, { inside = as_bias }))
    assert(worst < 1e-11, worst)
    local all = { blocks = function(tile)
      return moonring.ones(1, 1, math.ceil(tile.k:size(0) / 16)):gt(0)
    end, block_size = 16 }
    local plain, without = run(model)
    worst = gap(plain, without, run(model, { inside = { all, all } }))
    assert(worst < 1e-11, worst)
    assert(math.abs(plain / want - 1) > 1e-6)

    local _, exact = run(model, { inside = hooks })
    for _, each in ipairs { { gate, 7 }, { slopes, 2 } } do
      local parameter, place = each[1], each[2]
      local flat, losses = parameter:weight():view(-1), {}
      local before = flat[place]:item()
      for i, step in ipairs { 1e-4, -1e-4 } do
        flat[place]:fill_(before + step)
        losses[i] = run(model, { inside = hooks })
      end
      flat[place]:fill_(before)
      local got = exact[parameter:name()]:view(-1)[place]:item()
      local difference = (losses[1] - losses[2]) / 2e-4
      assert(math.abs(got / difference - 1) < 1e-5, got .. " " .. difference)
    end
  )lua"),
              Succeeds());
}

TEST_F(BlockHooksTest, TheSameOnAnyRanks) {
  const std::string compare = R"lua(
    local loss, gradients = run(load(), { inside = hooks })
    local digest = {}
    for name, gradient in pairs(gradients) do
      local numbers = gradient:view(-1)
      local wave = (moonring.arange(numbers:numel()):to "fp64" * 0.37):sin()
      digest[#digest + 1] = ("%s %.10g %.10g"):format(name, (numbers * wave):sum():item(),
        numbers:square():sum():item() ^ 0.5)
    end
    table.sort(digest)
    if mesh:rank() == 0 then print(("loss %.11g\n"):format(loss) .. table.concat(digest, "\n")) end
  )lua";
  const CommandResult alone = RunScript(compare);
  ASSERT_THAT(alone, Succeeds());
  const auto numbers = [](const std::string& text) {
    std::vector<double> all;
    const std::regex number(R"( (-?[0-9.e+-]+))");
    for (std::sregex_iterator found(text.begin(), text.end(), number), end; found != end; ++found)
      all.push_back(std::stod((*found)[1]));
    return all;
  };
  const std::vector<double> want = numbers(alone.out);
  ASSERT_GT(want.size(), 20u);
  for (const Words& words : std::vector<Words>{{"sp=2"},
                                               {"sp=2", "strategy=ulysses"},
                                               {"sp=4", "strategy=usp"},
                                               {"sp=4", "strategy=all-gather"}}) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const CommandResult result = RunScript(compare, words);
    ASSERT_THAT(result, Succeeds());
    const std::vector<double> got = numbers(result.out);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-8 * std::fabs(want[i]) + 1e-10) << i;
  }
}

TEST_F(BlockHooksTest, MistakesAreNamed) {
  EXPECT_THAT(RunScript(R"lua(
    local model = load()
    local function inside(hooks)
      run(model, { inside = { [2] = hooks } })
    end
    local function none() end
    for _, block in ipairs { 0, 3 } do
      refused(("option 'inside': block %d, expected 1 to 2"):format(block), run, model,
        { inside = { [block] = hooks[2] } })
    end
    refused("inside: block 2, expected 1 to 1 (where `upto` ends the forward)", run, model,
      { upto = 1, inside = { [2] = hooks[2] } })
    refused("inside: block 2: expected a table of functions, got a function", inside, none)
    refused("inside: block 2: expected one of the functions qkv, bias and blocks", inside, {})
    refused("unknown option 'block' (did you mean 'blocks'?)", inside, { block = none })
    refused("inside: block 2: bias: expected a function, got a number", inside, { bias = 3 })
    refused("inside: block 2: rows without bias or blocks", inside, { qkv = none, rows = none })
    refused("blocks and block_size (1 or more) are given together, got block_size 0", inside,
      { blocks = nearest })
    refused("blocks and block_size (1 or more) are given together, got block_size 16", inside,
      { qkv = none, block_size = 16 })
    refused("inside: block 2: qkv returned 0 values, expected q, k and v", inside, { qkv = none })
    refused("inside: block 2: bias returned nothing, expected a Tensor", inside, { bias = none })
    refused("inside: block 2: rows returned a number, expected a table of tensors by name", inside,
      { bias = none, rows = function() return 3 end })
    refused("inside: block 2: rows returned 'a' of shape [3], expected 572 rows", inside,
      { bias = none, rows = function() return { a = moonring.zeros(3) } end })
    refused("inside: block 2: given returned a list, expected a table of tensors by name", inside,
      { bias = none, given = { moonring.zeros(1) } })
    refused("inside: block 2: bias uses a tensor from outside the block that requires a gradient",
      inside, { bias = function() return slopes:use():view(-1, 1, 1) end })
    local weight = gate:use()
    refused("inside: block 2: rows uses a tensor from outside the block", inside,
      { rows = function(x) return { a = x:matmul(weight) } end,
        bias = function(tile) return tile.rows.a:t():unsqueeze(1) end })
    local count = 0
    refused("inside: block 2: bias returned other numbers when the block was recomputed", inside,
      { bias = function(tile)
        count = count + 1
        return tile.q:new_ones { 1, 1, 1 } * count
      end })
    -- Tensors are closed when a function returns.
    local seen
    inside { qkv = function(q, k, v) seen = q return q, k, v end }
    refused("is closed", seen.sum, seen)
    -- An error in the backward, and everything as before after it.
    local calls, before = 0, run(model, { inside = hooks })
    refused("mine", inside, { bias = function(tile)
      calls = calls + 1
      if calls > 4 then error "mine" end
      return tile.q:new_zeros { 1, 1, 1 }
    end })
    model:parameters():clear_gradients()
    assert(run(model, { inside = hooks }) == before)
    refused("unknown option 'inside'", model.generate, model, { 1, 2 }, { inside = hooks })
    refused("attempt to yield", coroutine.wrap(function() inside { qkv = coroutine.yield } end))
    local place, module = model:first_nonfinite(ids, positions, plan, { inside = { [2] = {
      qkv = function(q, k, v) return q, k, v / 0 end } } })
    assert(place == 3 and module == "model.layers.1", module)
  )lua"),
              Succeeds());
  const CommandResult result = RunScript(
      "local function bias(tile) return tile.nothing * 2 end\n"
      "run(load(), { inside = { { bias = bias } } })\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("attempt to perform arithmetic on field 'nothing'"));
}

// Runs an example on rows of 400 tokens, which several ranks share. Returns the loss and the
// gradient norm of its first step.
class BlockExamplesTest : public Workplace {
 protected:
  BlockExamplesTest() {
    nlohmann::json rows = nlohmann::json::array();
    for (int row = 0; row < 12; ++row) {
      std::string text;
      for (int word = 0; word < 60; ++word)
        text += "the " + std::to_string((row * 37 + word * word * 11) % 97) + " moons of " +
                std::to_string((row + word) % 7) + " rose. ";
      rows.push_back({{"text", text}});
    }
    Write("data/long.json", rows.dump());
    Write("data/dataset_info.json",
          R"({"long": {"file_name": "long.json", "columns": {"prompt": "text"}}})");
  }

  std::vector<double> FirstStep(const std::string& example, const Words& options,
                                const Words& more) const {
    const std::string out = "out" + std::to_string(++runs_);
    const Words words = options + Words{Runfile("scripts/examples/" + example + ".lua"),
                                        "model=" + Runfile("tests/golden/stages/model"),
                                        "data=long",
                                        "stage=pt",
                                        "size=16",
                                        "top=2",
                                        "cutoff=400",
                                        "batch=4",
                                        "steps=1",
                                        "out=" + out};
    EXPECT_THAT(Run(words + more), Succeeds());
    for (const nlohmann::json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl")))
      if (line.contains("loss")) return {line["loss"], line["grad_norm"]};
    return {};
  }

  void ExpectSame(const std::string& example, const Words& more,
                  const std::vector<std::pair<Words, Words>>& ways) const {
    const std::vector<double> alone = FirstStep(example, {}, more);
    ASSERT_EQ(alone.size(), 2u);
    EXPECT_GT(alone[1], 1e-3);
    for (const auto& [options, words] : ways) {
      SCOPED_TRACE(example + ::testing::PrintToString(options + words));
      const std::vector<double> got = FirstStep(example, options, words + more);
      ASSERT_EQ(got.size(), 2u);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], alone[i], 1e-6 * alone[i]) << i;
    }
  }

 private:
  mutable int runs_ = 0;
};

TEST_F(BlockExamplesTest, MobaOnTwoRanks) {
  ExpectSame("moba", {}, {{{}, {"sp=2"}}, {OnRanks(2), {}}});
  EXPECT_NE(FirstStep("moba", {}, {"top=3"}), FirstStep("moba", {}, {}));
}

TEST_F(BlockExamplesTest, EveryWayOnAnyRanks) {
  const std::vector<std::pair<Words, Words>> ways = {
      {{}, {"micro_tokens=400"}},
      {{}, {"sp=2", "strategy=ulysses"}},
      {{}, {"sp=4", "strategy=usp"}},
      {{}, {"sp=2", "recompute=selective", "zero=3"}},
      {OnRanks(4), {"sp=2", "recompute=none"}}};
  ExpectSame("moba", {}, ways);
  ExpectSame("moba", {"lora=4"}, ways);
  ExpectSame("top_blocks", {}, ways);
  ExpectSame("top_blocks", {"lora=4"}, ways);
}

}  // namespace
}  // namespace moonring::testing
