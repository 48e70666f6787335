// Users' scripts: errors are reported with their position and the stack of calls; scripts may write
// to weights; and a script's options determine how many ranks start.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CustomScriptsTest : public Workplace {
 protected:
  CustomScriptsTest() { WriteModel("model"); }

  // Runs mine.lua, which defines a model and a sequence and then continues with `text`.
  CommandResult RunScript(const std::string& text, std::vector<std::string> options = {}) const {
    Write("mine.lua", kBegin + text);
    options.push_back("mine.lua");
    return Run(std::move(options));
  }
  // Returns "mine.lua:N", where N is the line's number in the file and `line` its number in `text`
  // (from 1).
  static std::string Line(int line) {
    const std::string begin = kBegin;
    return "mine.lua:" + std::to_string(line + std::count(begin.begin(), begin.end(), '\n'));
  }

 private:
  static constexpr char kBegin[] = R"lua(
      local moonring = require "moonring"
      local mesh = moonring.comm.mesh { sp = 1, deadline = 60 }
      local model = moonring.model.load(moonring.model.open "model")
      local attention = moonring.attention.create { mesh = mesh }
      local sequence = moonring.comm.sequence { documents = { { 1, 2, 3, 4 } } }
      local ids, positions, targets, plan = attention:cut(sequence)
      local function loss(of)
        local hidden = of:forward(ids, positions, plan)
        return -moonring.objectives.log_prob(hidden, of:head(), targets):sum()
      end
      local function weight(name, of)
        for _, parameter in ipairs((of or model):parameters():list()) do
          if parameter:name() == name then return parameter end
        end
      end
      local parts = { mesh = mesh, model = model, attention = attention }
      local own = { level = "token" }
      function own.count(batch) return batch:count_targets() end
      function own.loss(_, log_probs) return -log_probs:sum() end
      local function refused(words, f, ...)
        local done, text = pcall(f, ...)
        local found = not done and text:find(words, 1, true)
        assert(found, done and "nothing was refused; expected: " .. words or text)
      end
    )lua";
};

TEST_F(CustomScriptsTest, RefuseWhatAnObjectiveDoesNotKnow) {
  EXPECT_THAT(RunScript(R"lua(
    local function with(changes, without)
      local objective = {}
      for name, value in pairs(own) do objective[name] = value end
      for name, value in pairs(changes) do objective[name] = value end
      if without then objective[without] = nil end
      return { mesh = mesh, model = model, attention = attention, objective = objective }
    end
    local new, bad = moonring.engine.new, ": INVALID_ARGUMENT: "
    refused("objective" .. bad .. "option 'level': expected token or sequence, got 'Token' "
      .. "(did you mean 'token'?)", new, with { level = "Token" })
    refused("objective" .. bad .. "unknown option 'statistic' (did you mean 'statistics'?); known: "
      .. "around, combine, count, ", new, with { statistic = { "greedy" } })
    refused("upto without values", new, with { upto = 1 })
    refused("option 'count': expected a function, got a number", new, with { count = 3 })
    refused("option 'loss' is missing", new, with({}, "loss"))
    refused("state without load_state", new, with { state = function() return "" end })
    local survey = { documents = "mine", per_example = 1, run = print }
    refused("option 'documents': expected own or mismatched, got 'mine'", new,
      with { survey = survey })
    survey.run = nil
    refused("objective.survey" .. bad .. "option 'run' is missing", new, with { survey = survey })
    local engine = new(with { _memory = {} }) -- the script's own
    assert(engine.objective._memory)
    local options = with {}
    options.objectve = own
    refused("engine.new" .. bad .. "unknown option 'objectve' (did you mean 'objective'?)", new,
      options)
    options.objectve, options.objective = nil, nil
    refused("option 'objective' is missing", new, options)
    refused("expected a table of options, got string", new, "mine")
    refused("Engine:evaluate" .. bad .. "unknown option 'batches' (did you mean 'batch'?)",
      engine.evaluate, engine, nil, { batches = 1 })
    refused("router.new" .. bad .. "option 'size' is missing", require("moonring.run.router").new,
      { model = model, coefficient = 1 })
  )lua"),
              Succeeds());
}

// The message about a skipped step states what the step lacks.
TEST_F(CustomScriptsTest, GetTheReasonWhyAStepIsLeftOut) {
  EXPECT_THAT(RunScript(R"lua(
    local labels = { 1, 2, 3, 4 }
    local micro = { document_counts = function() return { 1 } end }
    function micro.sequence()
      return moonring.comm.sequence { documents = { { 1, 2, 3, 4 } }, labels = { labels } }
    end
    function micro.labels() return moonring.tensor(labels, "int64") end
    function micro.examples() return { 0 } end
    micro.places = micro.examples
    local micros = { micro }
    local step = { micro_batches = function() return micros end }
    parts.objective = own
    local engine = moonring.engine.new(parts)
    local function left_out(wanted)
      local loss, metrics, why = engine:backward(step, 1)
      assert(not loss and not metrics and why:find(wanted, 1, true), why)
    end
    assert(engine:backward(step, 1) > 0)
    local count = own.count
    function own.count() return 0 end
    left_out "the objective's count of it is 0"
    function own.count() return -3 end
    left_out "the objective's count of it is -3"
    own.count = count
    labels = { 1, -100, -100, -100 }
    left_out "no label in it but -100, or none after a document's first token"
    micros = {}
    left_out "no example in it"
  )lua"),
              Succeeds());
}

TEST_F(CustomScriptsTest, SayWhereTheyFailed) {
  CommandResult result = RunScript(
      "local function prepare()\n"
      "  parts.objectve = own\n"
      "  local engine = moonring.engine.new(parts)\n"
      "end\n"
      "prepare()\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("moonring: " + Line(3) +
                                     ": engine.new: INVALID_ARGUMENT: unknown option 'objectve' "
                                     "(did you mean 'objective'?)"));
  EXPECT_THAT(result.err, EndsWith("\n  " + Line(3) + ": in function 'prepare'\n  " + Line(5) +
                                   ": in main chunk\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("moonring/")));  // no frames of Moonring's own functions
  result = RunScript("local function step() error { message = 'the disk is full' } end\nstep()\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "moonring: the disk is full\n  " + Line(1) + ": in function 'step'\n  " +
                            Line(2) + ": in main chunk\n");
  // An error in an objective that Moonring calls: the stack has the loss first, then the line that
  // called the engine.
  result = RunScript(
      "function own.loss(_, log_probs)\n"
      "  local sum = log_probs:tolist(1)\n"
      "  return sum\n"
      "end\n"
      "parts.objective = own\n"
      "local batch = {}\n"
      "function batch.hidden() return ids end\n"
      "function batch.token_log_probs() return targets end\n"
      "local function step() return (moonring.engine.new(parts):loss(batch)) end\n"
      "step()\n");
  EXPECT_EQ(result.err,
            "moonring: " + Line(2) +
                ": Tensor:tolist: INVALID_ARGUMENT: expected no arguments, got 1 argument\n"
                "  " +
                Line(2) + ": in function 'loss'\n  " + Line(9) + ": in function 'step'\n  " +
                Line(10) + ": in main chunk\n");
  // With --sandbox the stack has no other functions of the host, and a position that the message
  // contains already is not repeated.
  result = RunScript("error 'mine'", {"--sandbox"});
  EXPECT_EQ(result.err, "moonring: " + Line(1) + ": mine\n");
  result = RunScript("local function f() error 'mine' end\nf() return 1", {"--sandbox"});
  EXPECT_EQ(result.err, "moonring: " + Line(1) + ": mine\n  " + Line(1) + ": in function 'f'\n  " +
                            Line(2) + ": in main chunk\n");
}

TEST_F(CustomScriptsTest, ErrorsAreReportedInOneLineWithTheScriptsWords) {
  Write("usage.lua",
        "local moonring = require 'moonring'\nlocal function read() return moonring.flags { model "
        "= moonring.required } end\nlocal opt = read()");
  EXPECT_THAT(Run({"usage.lua"}), FailsWith(2, StartsWith("model= is missing")));
  EXPECT_THAT(Run({"usage.lua", "modle=x"}),
              FailsWith(2, StartsWith("unknown key 'modle' (did you mean 'model'?)")));
}

// What an objective's functions return is checked where they return it. The message names the line
// of the function.
TEST_F(CustomScriptsTest, RefuseWhatAnObjectiveReturns) {
  EXPECT_THAT(RunScript(R"lua(
    local step = moonring.data.step { micro_batch_tokens = 99,
      examples = { { ids = { 1, 2, 3, 4 } }, { ids = { 5, 6, 7 } } } }
    local function says(words, changes)
      local objective = {}
      for name, value in pairs(own) do objective[name] = value end
      for name, value in pairs(changes) do objective[name] = value end
      parts.objective = objective
      local engine = moonring.engine.new(parts)
      local done, why = pcall(engine.backward, engine, step, 1)
      assert(not done, "nothing was refused; expected: " .. words)
      local message = why.message:gsub("mine.lua:%d+", "LINE")
      assert(message:find(words, 1, true), tostring(why))
      assert(why.code == "INVALID_ARGUMENT", tostring(why))
      model:parameters():clear_gradients()
    end
    local one = moonring.ones(1)
    local sum = "the objective's loss (LINE) returned "
    local nothing = "nothing (is a `return` missing?), expected "
    says(sum .. nothing .. "the sum over the batch: a tensor with one element, or a number",
      { loss = function(_, log_probs) local _ = -log_probs:sum() end })
    says(sum .. "a tensor of shape [7], expected the sum over the batch: a tensor with one "
      .. "element, or a number (x:sum() adds the elements)",
      { loss = function(_, l) return -l end })
    says(sum .. "a table, expected", { loss = function(_, l) return { -l:sum() } end })
    says(sum .. "true, expected", { loss = function() return true end })
    says(sum .. "3, expected a table of metrics", { loss = function(_, l) return -l:sum(), 3 end })
    says(sum .. "a tensor of shape [7], expected numbers in the metric p",
      { loss = function(_, l) return -l:sum(), { p = { l, 7 } } end })
    says(sum .. nothing .. "numbers in the metric p",
      { loss = function(_, l) return -l:sum(), { p = {} } end })
    says("metric p: expected { sum, count }, got a list without a count",
      { loss = function(_, l) return -l:sum(), { p = { 1 } } end })
    says("returned a metric of the name 'my p', expected a name without spaces",
      { loss = function(_, l) return -l:sum(), { ["my p"] = { 1, 1 } } end })
    says("returned a metric of the name '1'",
      { loss = function(_, l) return -l:sum(), { { 1, 1 } } end })
    local count = "the objective's count (LINE) returned "
    says(count .. nothing .. "a number: the batch's share of the divisor",
      { count = function() end })
    says(count .. "a tensor of shape [1], expected a number: the batch's share of the divisor "
      .. "(x:item() is a tensor's number)", { count = function() return one end })
    local whole = "the objective's count: expected a whole number, got "
    says(whole .. "0.5", { count = function() return 0.5 end })
    says(whole .. "nan", { count = function() return 0 / 0 end })
    says("the objective's values (LINE) returned " .. nothing .. "a tensor or a table of tensors",
      { values = function() end })
    says("the objective's values (LINE) returned an empty table",
      { values = function() return {} end })
    says("the objective's values (LINE) returned a table with 3 as 'b'",
      { values = function(_, hidden) return { a = hidden, b = 3 } end })
    local documents = { level = "sequence", loss = function(_, l) return -l:sum() end }
    documents.weights = function() end
    says("the objective's weights (LINE) returned " .. nothing .. "a tensor of shape [7]: a factor "
      .. "for each token of the stream", documents)
    documents.weights = function() return one end
    says("the objective's weights (LINE) returned a tensor of shape [1], expected", documents)
  )lua"),
              Succeeds());
}

TEST_F(CustomScriptsTest, RefuseGlobalsThatWereNeverSet) {
  Write("library.lua", "return not no_such_name and not no_other_name");
  EXPECT_THAT(RunScript(R"lua(
    local learning_rate = 1e-3
    refused("global 'leraning_rate': INVALID_ARGUMENT: it was never set (did you mean "
      .. "'learning_rate'?)", function() return { lr = leraning_rate }, learning_rate end)
    assert(require "library") -- only the script's own file
    assert(rawget(_G, "leraning_rate") == nil)
    later = 3
    assert(later == 3)
  )lua"),
              Succeeds());
}

TEST_F(CustomScriptsTest, WriteWeightsThatTheModelUses) {
  EXPECT_THAT(RunScript(R"lua(
    local norm, before = weight "model.norm.weight", loss(model):item()
    norm:weight():copy_(norm:weight() * 2)
    local doubled = loss(model):item()
    assert(math.abs(doubled - before) > 1e-3, doubled)
    norm:copy_(norm:weight() * 0.5)
    assert(loss(model):item() == before)
    refused("model.norm.weight: expected a tensor of shape [32], got [3]", norm.copy_, norm,
      moonring.tensor { 1, 2, 3 })

    -- The optimizer continues from what was written.
    local states = moonring.trainer.zero { mesh = mesh }:states(model:parameters())
    local sgd = moonring.trainer.sgd(states:parameters())
    norm:copy_(norm:weight() * 0 + 3)
    loss(model):backward()
    states:sum_gradients()
    local gradient = norm:gradient():tolist()[1]
    sgd:step(0.5)
    states:publish()
    assert(math.abs(norm:weight():tolist()[1] - (3 - 0.5 * gradient)) < 1e-6)
  )lua"),
              Succeeds());
}

// With ZeRO a weight is sharded, and in 16 bits it also has an fp32 master weight: a write changes
// the gathered copies and the masters on every rank.
TEST_F(CustomScriptsTest, WriteWeightsThatAreShardedOverRanks) {
  Write("sharded.lua", R"lua(
    local moonring = require "moonring"
    local stage, held = tonumber(arg[1]), arg[2] ~= "fp32" and arg[2] or nil
    local mesh = moonring.comm.mesh { sp = 2, deadline = 60 }
    local zero = moonring.trainer.zero { mesh = mesh, stage = stage }
    local model = moonring.model.load(moonring.model.open "model",
      { precision = held or "fp32", zero = stage == 3 and zero or nil })
    local states = zero:states(model:parameters(), { held = held })
    local attention = moonring.attention.create { mesh = mesh }
    local sequence = moonring.comm.sequence { documents = { { 1, 2, 3, 4, 5, 6, 7, 8 } } }
    local ids, positions, targets, plan = attention:cut(sequence)
    local function loss()
      local hidden = model:forward(ids, positions, plan)
      return mesh:sum(-moonring.objectives.log_prob(hidden, model:head(), targets):sum():item())
    end
    local written
    for _, parameter in ipairs(model:parameters():list()) do
      if parameter:name() == "model.layers.1.mlp.down_proj.weight" then written = parameter end
    end
    local before, weight = loss(), written:weight()
    local wanted = weight * 2
    if stage == 3 or (held and stage > 0) then
      local done, why = pcall(weight.copy_, weight, wanted)
      assert(not done and why:find "is held elsewhere .* Parameter:copy_ writes it", why)
      local row = weight[0] -- nor into a part of the copy
      done = pcall(row.copy_, row, weight[1])
      assert(not done)
    end
    written:copy_(wanted)
    local after = loss()
    assert(math.abs(after - before) > 1e-4, after)
    local leased = written:weight()
    assert((leased - wanted):abs():sum():item() == 0, "what is leased is what was written")
    moonring.trainer.sgd(states:parameters()):step(0) -- from the masters
    states:publish()
    assert(loss() == after, "the masters are what was written")
    if mesh:rank() == 0 then print "well" end
  )lua");
  for (const std::string stage : {"0", "1", "2", "3"}) {
    for (const std::string held : {"fp32", "bf16", "fp16"}) {
      const CommandResult result = Run({"-n", "2", "sharded.lua", stage, held});
      EXPECT_THAT(result, Succeeds()) << "stage " << stage << ", " << held;
      EXPECT_EQ(result.out, "well\n");
    }
  }
}

// Steps of pairs without labels are skipped by DPO's script too: no weight decay and no momentum is
// applied.
TEST_F(CustomScriptsTest, LeaveOutStepsWithoutTargets) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string row : {"one", "two", "three"})
    rows.push_back({{"instruction", "Say " + row}, {"chosen", row}, {"rejected", "none"}});
  Write("data/pairs.json", rows.dump());
  Write("data/dataset_info.json",
        R"({"pairs": {"file_name": "pairs.json", "ranking": true,
            "columns": {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}}})");
  Write("counted.lua", R"lua(
    local moonring = require "moonring"
    local unlabelled, made = table.remove(arg, 1) == "unlabelled", 0
    local adamw, create = moonring.trainer.adamw, moonring.attention.create
    function moonring.trainer.adamw(...)
      local optimizer = adamw(...)
      return { step = function(_, lr)
        made = made + 1
        optimizer:step(lr)
      end }
    end
    function moonring.attention.create(options)
      local attention = create(options)
      return { kernels = function() return attention:kernels() end,
        cut = function(_, sequence)
          local ids, positions, targets, plan, layout = attention:cut(sequence)
          return ids, positions, unlabelled and targets * 0 - 100 or targets, plan, layout
        end }
    end
    dofile(moonring.system.script_path "dpo")
    print("updates: " .. made)
  )lua");
  for (const auto& [kind, updates] : {std::pair("labelled", "2"), std::pair("unlabelled", "0")}) {
    const CommandResult result = Run({"counted.lua", kind, "model=model", "data=pairs", "dir=data",
                                      "batch=2", "template=smollm2", "out=out"});
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, HasSubstr(std::string("updates: ") + updates)) << kind;
  }
}

// `sp=2` starts two ranks: Moonring's scripts and their copies do not need -n. A script that is
// started with -n starts no further ranks.
TEST_F(CustomScriptsTest, StartTheirRanks) {
  WriteConfig();
  const std::vector<std::string> words = {"model=model", "data=rows",       "dir=data",
                                          "batch=10",    "epochs=1",        "sp=2",
                                          "out=out",     "template=smollm2"};
  Write("copied.lua", ReadText("scripts/sft.lua"));
  const std::vector<std::vector<std::string>> ways = {{"sft"}, {"copied.lua"}, {"-n", "2", "sft"}};
  std::string first;
  for (std::vector<std::string> command : ways) {
    command.insert(command.end(), words.begin(), words.end());
    const CommandResult result = Run(command);
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, StartsWith("step 1/1  loss "));
    if (first.empty()) first = result.out;
    EXPECT_EQ(result.out, first);
  }
  EXPECT_THAT(Run({"-n", "3", "sft", "model=model", "data=rows", "sp=2"}),
              FailsWith(2, HasSubstr("2 does not divide the number of ranks, 3")));
  Write("whoami.lua",
        "local moonring = require 'moonring'\nmoonring.launch(2)\nprint(moonring.comm.mesh { sp = "
        "2, deadline = 60 }:size())");
  EXPECT_EQ(Run({"whoami.lua"}).out, "2\n2\n");
}

}  // namespace
}  // namespace moonring::testing
