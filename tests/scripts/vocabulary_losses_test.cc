// Losses over the whole vocabulary in Lua: losses, metrics and gradients do not depend on the
// number of ranks, strategy and packing, or ZeRO-3. Also the example scripts/examples/distill.lua,
// and an objective's values by name.

#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class VocabularyLossesTest : public InvarianceTest {
 protected:
  // Returns cases that have all these losses at once, with a smaller reference model: the data
  // set's conversations, and documents that leave a rank without a target.
  std::vector<InvarianceCase> OwnCases() const {
    const json keys = {{"stage", "sft"}, {"dataset", "talks"}},
               reference = {{"vocabulary", golden_ + "model_short"}};
    json lacking = reference;
    for (const InvarianceCase& each : Cases()) {
      if (each.name != "some_sft") continue;
      lacking["documents"] = each.more["documents"];
      lacking["labels"] = each.more["labels"];
    }
    return {{"talks", keys, reference}, {"lacking", keys, lacking}};
  }

  std::vector<InvarianceRun> Plan(const std::vector<InvarianceCase>& cases,
                                  const std::vector<std::string>& strategies, bool packed,
                                  const std::string& precision = "fp64") const {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : cases) {
      for (const std::string& strategy : strategies)
        plan.push_back(RunOf(each, strategy, packed, precision));
    }
    return plan;
  }
};

TEST_F(VocabularyLossesTest, AreTheSameOnAnyRanks) {
  const std::vector<InvarianceCase> cases = OwnCases();
  ASSERT_TRUE(cases[1].more.contains("documents"));
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  Compare({1, 1}, Plan(cases, {"zigzag-ring"}, false), 1e-10);
  Compare({2, 1}, Plan(cases, {"ulysses"}, true), 1e-10);
  Compare({2, 2}, Plan(cases, {"ring", "ulysses", "all-gather"}, false), 1e-10);
  Compare({4, 2}, Plan(cases, {"zigzag-ring"}, true), 1e-10);
  Compare({4, 4}, Plan(cases, {"usp", "zigzag-ring"}, true), 1e-10);
}

TEST_F(VocabularyLossesTest, InSinglePrecision) {
  const std::vector<InvarianceCase> cases = OwnCases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases, "fp32"));
  Compare({2, 2}, Plan(cases, {"zigzag-ring"}, true, "fp32"), 1e-5);
}

// ZeRO-3 gathers the head for each of the losses, forward and backward, also on a rank without a
// target.
TEST_F(VocabularyLossesTest, UnderZero3) {
  const std::vector<InvarianceCase> cases = OwnCases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  for (const Ranks& ranks : {Ranks{2, 1}, Ranks{2, 2}}) {
    std::vector<InvarianceRun> plan = Plan(cases, {"ring"}, false);
    for (InvarianceRun& run : plan) run.entry["keys"]["zero_stage"] = 3;
    Compare(ranks, plan, 1e-10);
  }
}

class DistillTest : public Workplace {
 protected:
  std::string home_ = Runfile("tests/golden/stages");

  std::vector<json> Log(const std::string& out, const std::string& reference,
                        std::vector<std::string> options, const std::vector<std::string>& more) {
    options.push_back(Runfile("scripts/examples/distill.lua"));
    for (const std::string& word :
         {"model=" + home_ + "/model_short", "reference=" + home_ + "/" + reference,
          "dir=" + home_ + "/data", "out=" + out, std::string("data=talks"),
          std::string("template=chatml"), std::string("batch=6"), std::string("steps=3")})
      options.push_back(word);
    options.insert(options.end(), more.begin(), more.end());
    EXPECT_THAT(Run(options), Succeeds());
    return ReadJsonLines(Path(out + "/trainer_log.jsonl"));
  }

  static double Of(const json& line, const char* name) { return line.at(name).get<double>(); }
};

TEST_F(DistillTest, IsTheSameOnAnyRanks) {
  const std::vector<json> alone = Log("one", "model", {}, {});
  ASSERT_GE(alone.size(), 3);
  for (int step = 0; step < 3; ++step) {  // what the metrics say is what the loss is made of
    EXPECT_NEAR(Of(alone[step], "loss"),
                0.5 * 4 * Of(alone[step], "divergence") + 0.5 * Of(alone[step], "nll"), 1e-5);
    EXPECT_GT(Of(alone[step], "divergence"), 0.01);
  }
  const StoredTensors one = ReadSafetensors(Path("one/model.safetensors"));
  struct Way {
    std::string out;
    std::vector<std::string> options, more;
  };
  for (const Way& way : {Way{"two", {"-n", "2"}, {"sp=2"}}, Way{"small", {}, {"micro_tokens=1"}},
                         Way{"four", {"-n", "4"}, {"sp=2", "micro_tokens=300"}},
                         Way{"head", {"-n", "2"}, {"sp=2", "strategy=ulysses"}}}) {
    SCOPED_TRACE(way.out);
    const std::vector<json> log = Log(way.out, "model", way.options, way.more);
    ASSERT_EQ(log.size(), alone.size());
    for (int step = 0; step < 3; ++step) {
      for (const char* name : {"loss", "divergence", "nll", "grad_norm"})
        EXPECT_NEAR(Of(log[step], name), Of(alone[step], name), 1e-5 * Of(alone[step], name));
    }
    const StoredTensors other = ReadSafetensors(Path(way.out + "/model.safetensors"));
    for (const auto& [name, tensor] : one)
      EXPECT_LT(RelativeDistance(other.at(name).values, tensor.values), 1e-5) << name;
  }
}

// The model is its own reference: the divergence is 0, and the loss is half of the targets' loss.
TEST_F(DistillTest, FromItself) {
  for (const std::string kind : {"forward", "reverse", "js"}) {
    const std::vector<json> log = Log(kind, "model_short", {}, {"kind=" + kind, "lr=0"});
    for (int step = 0; step < 3; ++step) {
      EXPECT_NEAR(Of(log[step], "divergence"), 0.0, 1e-6);
      EXPECT_NEAR(Of(log[step], "loss"), 0.5 * Of(log[step], "nll"), 1e-5);
    }
  }
}

// Both models use bf16 matmuls.
TEST_F(DistillTest, InBf16) {
  const std::vector<json> fp32 = Log("fp32", "model", {}, {}),
                          bf16 = Log("bf16", "model", {"-n", "2"}, {"sp=2", "bf16=true"});
  for (const char* name : {"loss", "divergence", "nll"})
    EXPECT_NEAR(Of(bf16[0], name), Of(fp32[0], name), 2e-2 * Of(fp32[0], name));
}

class OwnValuesTest : public Workplace {
 protected:
  OwnValuesTest() { WriteModel("model"); }
};

TEST_F(OwnValuesTest, AreATensorOrSomeByName) {
  Write("mine.lua", R"lua(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh { sp = 1 }
    local model = moonring.model.load(moonring.model.open "model")
    local attention = moonring.attention.create { mesh = mesh }
    local labels = { 1, 2, 3, 4, 5, -100 }
    local micro = { document_counts = function() return { 1 } end }
    function micro.sequence()
      return moonring.comm.sequence { documents = { { 1, 2, 3, 4, 5, 6 } }, labels = { labels } }
    end
    function micro.labels() return moonring.tensor(labels, "int64") end
    function micro.examples() return { 0 } end
    micro.places = micro.examples
    local step = { micro_batches = function() return { micro } end }
    local function refused(words, f, ...)
      local done, text = pcall(f, ...)
      assert(not done and tostring(text):find(words, 1, true), tostring(text))
    end
    local function backward(values, loss)
      model:parameters():clear_gradients()
      local engine = moonring.engine.new { mesh = mesh, model = model, attention = attention,
        objective = { level = "token", count = function() return 1 end, values = values,
          loss = loss or function(_, of) return of.kl:sum() - of.entropy:sum() end } }
      return engine:backward(step, 1)
    end

    -- Against itself, and by numbers made apart.
    local sums
    local loss = backward(function(batch, hidden)
      local from = { kind = "js", beta = 0.25, reference = model,
        hidden = batch:reference_hidden(model) }
      return { kl = batch:divergence(model, hidden, from), entropy = batch:entropy(model, hidden),
        z = batch:z_loss(model, hidden), log_probs = batch:token_log_probs(model, hidden) }
    end, function(batch, of)
      sums = { kl = of.kl:sum():item(), entropy = of.entropy:sum():item(), z = of.z:tolist(),
        targets = batch.targets:tolist() }
      return of.kl:sum() - of.entropy:sum()
    end)
    assert(math.abs(sums.kl) < 1e-6 and math.abs(loss + sums.entropy) < 1e-5)
    assert(sums.entropy > 1 and sums.entropy < 5 * math.log(675))
    for t, target in ipairs(sums.targets) do assert((target == -100) == (sums.z[t] == 0)) end

    -- Values that are the hidden states among others stay open.
    backward(function(batch, hidden)
      return { kl = hidden, entropy = batch:entropy(model, hidden) }
    end)
    local function refused_values(words, values)
      local done, text = pcall(backward, values)
      text = tostring(text)
      assert(not done and text:find("the objective's values %(mine.lua:%d+%) returned " .. words)
        and text:find("expected a tensor or a table of tensors", 1, true), text)
    end
    refused_values("nothing %(is a `return` missing%?%)", function() end)
    refused_values("3", function() return 3 end)
    refused_values("an empty table", function() return {} end)
    refused_values("a table with 3 as '2'", function(_, hidden) return { hidden, 3 } end)

    -- What the methods refuse.
    local batch = require("moonring.run.batch").new(micro, attention, mesh)
    local hidden = batch:hidden(model)
    local function divergence(from) return batch:divergence(model, hidden, from) end
    refused("Batch:divergence: INVALID_ARGUMENT: unknown option 'betta' (did you mean 'beta'?)",
      divergence, { kind = "js", betta = 1 })
    refused("option 'kind' is missing", divergence, {})
    refused("option 'kind': unknown 'revers' (did you mean 'reverse'?); known: forward, reverse, "
      .. "js", divergence, { kind = "revers", reference = model, hidden = hidden })
    refused("the reference: expected either reference_hidden and reference_head, or ids and "
      .. "log_probs, got neither", divergence, { kind = "js" })
    refused("the reference needs hidden states and a head", divergence,
      { kind = "js", reference = model })
    local ids, log_probs = batch:top_log_probs(model, hidden, 3)
    assert(#ids:shape() == 2 and ids:shape()[2] == 3)
    refused("got both", divergence, { kind = "js", reference = model, hidden = hidden, ids = ids,
      log_probs = log_probs })
    refused("option 'rest': unknown 'buket' (did you mean 'bucket'?)", divergence,
      { kind = "js", ids = ids, log_probs = log_probs, rest = "buket" })
    refused("vocabulary is 1000, head model.embed_tokens.weight has 675 ids", batch.z_loss, batch,
      model, hidden, { vocabulary = 1000 })
    refused("Batch:entropy: INVALID_ARGUMENT: unknown option 'temprature'", batch.entropy, batch,
      model, hidden, { temprature = 1 })
    refused("temperature is 0, expected more than 0", batch.entropy, batch, model, hidden,
      { temperature = 0 })
  )lua");
  EXPECT_THAT(Run({"mine.lua"}), Succeeds());
}

}  // namespace
}  // namespace moonring::testing
