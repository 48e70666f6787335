// The scripts of scripts/examples that define a loss or inspect a model: their numbers do not
// depend on the number of ranks, and equal those of another implementation.

#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class LuaExamplesTest : public Workplace {
 protected:
  // Returns the loss and the gradient norm of three steps, from the log.
  std::vector<double> Train(const std::string& script, const Words& options,
                            const Words& more) const {
    const std::string home = Runfile("tests/golden/stages"), out = "out" + std::to_string(++runs_);
    Words words = options;
    for (const std::string& word : {script, "model=" + home + "/model", "dir=" + home + "/data",
                                    std::string("template=chatml"), std::string("batch=6"),
                                    std::string("steps=3"), std::string("lr=1e-3"), "out=" + out})
      words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(Run(words), Succeeds());
    std::vector<double> numbers;
    for (const nlohmann::json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (!line.contains("loss")) continue;
      numbers.push_back(line["loss"]);
      numbers.push_back(line["grad_norm"]);
    }
    EXPECT_EQ(numbers.size(), 6);
    return numbers;
  }

  // Compares numbers up to fp32 rounding over three steps of AdamW.
  static void ExpectSame(const std::vector<double>& numbers, const std::vector<double>& wanted) {
    ASSERT_EQ(numbers.size(), wanted.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_NEAR(numbers[i], wanted[i], 1e-4 * std::fabs(wanted[i])) << i;
  }

  // Checks that the numbers on several ranks equal `alone`, those of one rank.
  void ExpectSameOnAnyRanks(const std::string& script, const Words& keys,
                            const std::vector<double>& alone) const {
    const auto expect = [&](const Words& options, Words more) {
      SCOPED_TRACE(::testing::PrintToString(more));
      more.insert(more.end(), keys.begin(), keys.end());
      ExpectSame(Train(script, options, more), alone);
    };
    expect({}, {"micro_tokens=1"});
    expect({}, {"sp=2"});
    expect({}, {"sp=4", "strategy=usp"});
    expect({"-n", "2"}, {"sp=1"});  // dp 2
    expect({"-n", "4"}, {"sp=2", "strategy=ulysses", "micro_tokens=300"});
  }

 private:
  mutable int runs_ = 0;
};

// The start of both reference scripts: reads the examples' keys and runs one objective.
constexpr char kOpen[] = R"lua(
  local moonring = require "moonring"
  local opt = moonring.flags { model = "", dir = "", template = "", batch = 1, steps = 1, lr = 1,
    out = "", data = "", stage = "sft", weight = 1, pattern = "" }
  local function train(objective)
    local run = moonring.run.open({
      stage = opt.stage, finetuning_type = "full", logging_steps = 1,
      lr_scheduler_type = "constant", model_name_or_path = opt.model, dataset = opt.data,
      dataset_dir = opt.dir, template = opt.template, output_dir = opt.out,
      global_batch_size = opt.batch, max_steps = opt.steps, learning_rate = opt.lr,
      micro_batch_tokens = 8192,
    }, { objective = objective })
    for step in run:steps() do run:log(run:update(step)) end
    run:finish()
  end
)lua";

// Reference: a loss that weights each target by the text of its token.
constexpr char kWeighted[] = R"lua(
  local tokenizer = moonring.data.tokenizer(moonring.model.open(opt.model))
  local function weights(targets)
    local each, total = {}, 0
    for i, id in ipairs(targets:tolist()) do
      local text = id >= 0 and tokenizer:decode({ id }, true)
      each[i] = not text and 0 or text:find(opt.pattern) and opt.weight or 1
      total = total + each[i]
    end
    return each, total
  end
  train {
    level = "token",
    count = function(batch) return select(2, weights(batch:sequence():targets())) end,
    loss = function(batch, log_probs)
      local each = weights(batch.targets)
      local sum = moonring.zeros({}, { dtype = "fp64" })
      for i, weight in ipairs(each) do
        if weight > 0 then sum = sum - log_probs[i - 1]:to "fp64" * weight end
      end
      return sum
    end,
  }
)lua";

TEST_F(LuaExamplesTest, TokenWeights) {
  const std::string script = Runfile("scripts/examples/token_weights.lua");
  const Words keys = {"data=talks", "weight=5", "pattern=o"};
  const std::vector<double> alone = Train(script, {}, keys);
  Write("weighted.lua", std::string(kOpen) + kWeighted);
  ExpectSame(alone, Train("weighted.lua", {}, keys));
  EXPECT_GT(std::fabs(Train(script, {}, {"data=talks", "weight=1"})[0] / alone[0] - 1), 1e-3);
  ExpectSameOnAnyRanks(script, keys, alone);
}

// Reference: the whole step is one micro-batch on one rank, with its loss in autograd's graph: -log
// of the softmax of the pair's similarity over all other documents. All tokens are this rank's, so
// that the loss is one at level "token".
constexpr char kContrastive[] = R"lua(
  train {
    level = "token",
    count = function(batch) return 2 * batch:size() end,
    values = function(batch, hidden)
      local means, first = {}, 0
      for i, length in ipairs(batch:lengths()) do
        means[i] = hidden[{ { first, first + length } }]:to("fp64"):mean { 0 }
        first = first + length
      end
      return moonring.ops.stack(means)
    end,
    loss = function(_, vectors)
      local n, sum = #vectors, moonring.zeros({}, { dtype = "fp64" })
      local function score(a, b)
        return moonring.ops.cosine_similarity(vectors[a], vectors[b], 0) / 0.1
      end
      for a = 0, n - 1 do
        local others = {}
        for b = 0, n - 1 do
          if b ~= a then others[#others + 1] = score(a, b) end
        end
        local partner = a % 2 == 0 and a + 1 or a - 1
        sum = sum + moonring.ops.stack(others):logsumexp(0) - score(a, partner)
      end
      return sum
    end,
  }
)lua";

TEST_F(LuaExamplesTest, Contrastive) {
  const std::string script = Runfile("scripts/examples/contrastive.lua");
  const std::vector<double> alone = Train(script, {}, {"data=pairs"});
  Write("direct.lua", std::string(kOpen) + kContrastive);
  ExpectSame(alone, Train("direct.lua", {"-n", "1"}, {"data=pairs", "stage=rm"}));
  ExpectSameOnAnyRanks(script, {"data=pairs"}, alone);
}

// Computes a block from its weights and the attention maps (probabilities); the maps are right if
// the result equals what the model has after the block.
constexpr char kBlock[] = R"lua(
  local moonring = require "moonring"
  local ops, maps = moonring.ops, moonring.safetensors.read("alone.safetensors").maps
  local checkpoint = moonring.model.open(arg[1])
  local model = moonring.model.load(checkpoint, { frozen = true, precision = "fp64" })
  local attention = moonring.attention.create { mesh = moonring.comm.mesh {} }
  local text = moonring.data.tokenizer(checkpoint):encode(arg[2])
  local ids, positions, _, plan = attention:cut(moonring.comm.sequence { documents = { text } })
  local _, states = model:forward(ids, positions, plan, { states = { 1, 2 } })
  local weights = {}
  for _, each in ipairs(model:parameters():list()) do
    weights[each:name()] = each:weight():to "fp64"
  end
  local function of(name) return weights["model.layers.1." .. name .. ".weight"] end
  local function norm(x, name) return ops.rms_norm(x, { 48 }, of(name), 1e-6) end
  local v = norm(states[1], "input_layernorm"):matmul(of("self_attn.v_proj"):t())
  v = v:view(#text, 2, 12):repeat_interleave(2, 1):transpose(0, 1) -- [heads, T, width]
  local seen = maps:matmul(v):transpose(0, 1):reshape(#text, 48)
  local x = states[1] + seen:matmul(of("self_attn.o_proj"):t())
  local y = norm(x, "post_attention_layernorm")
  local gate = y:matmul(of("mlp.gate_proj"):t()):silu() * y:matmul(of("mlp.up_proj"):t())
  local after = x + gate:matmul(of("mlp.down_proj"):t())
  local gap = (after - states[2]):norm():item() / states[2]:norm():item()
  assert(gap < 1e-12, gap)
  assert(maps:sum(-1):allclose(moonring.ones({}, { dtype = "fp64" })))
  print "the block's own"
)lua";

TEST_F(LuaExamplesTest, AttentionMap) {
  const std::string model = Runfile("tests/golden/stages/model");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "The moon rose over harbour " + std::to_string(i) + ". ";
  const auto draw = [&](const std::string& out, const Words& more) {
    Words words = {Runfile("scripts/examples/attention_map.lua"),
                   "model=" + model,
                   "text=" + text,
                   "layer=1",
                   "head=2",
                   "precision=fp64",
                   "out=" + out};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(Run(words), Succeeds());
    EXPECT_EQ(ReadText(Path(out + ".png")).substr(1, 3), "PNG");
    return ReadSafetensors(Path(out + ".safetensors")).at("maps");
  };
  const StoredTensor alone = draw("alone", {});
  Write("block.lua", kBlock);
  const CommandResult block = Run({"block.lua", model, text});
  ASSERT_THAT(block, Succeeds());
  EXPECT_THAT(block.out, HasSubstr("the block's own"));
  for (const Words& more : {Words{"sp=2"}, Words{"sp=4", "strategy=usp"}}) {
    const StoredTensor many = draw("many", more);
    EXPECT_EQ(many.shape, alone.shape);
    EXPECT_LT(RelativeDistance(many.values, alone.values), 1e-6);  // as floats
  }
}

}  // namespace
}  // namespace moonring::testing
