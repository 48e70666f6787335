// Custom objectives that compare with a reference model, in a YAML and in a script: losses of two
// steps equal those of an objective that loads the reference itself and computes whole softmaxes
// with tensors. What cannot work is refused before the first step.

#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

// Three objectives with the KL divergence from the reference, or an estimate of it.
constexpr char kAsked[] = R"lua(
  local count = function(batch) return batch:count_targets() end
  local all = {
    documents = {
      level = "sequence", needs_reference = true, count = count,
      loss = function(batch, log_probs)
        return -log_probs:sum() + (log_probs - batch.reference):square():sum() * 0.1
      end,
    },
    tokens = {
      level = "token", needs_reference = "tokens", count = count,
      loss = function(batch, log_probs)
        local ratio = batch.reference - log_probs
        return -log_probs:sum() + (ratio:exp() - ratio - 1):sum()
      end,
    },
  }
  function all.distributions(_, policy)
    return {
      level = "token", needs_reference = "distributions", count = count,
      values = function(batch, hidden)
        local of = batch.reference
        return { log_probs = batch:token_log_probs(policy, hidden),
          kl = batch:divergence(policy, hidden, { kind = "forward", reference = of.reference,
            hidden = of.hidden }) }
      end,
      loss = function(_, of) return -of.log_probs:sum() + of.kl:sum() end,
    }
  end
  return all
)lua";

// The same losses with a reference that the script loads, by whole softmaxes.
constexpr char kExpected[] = R"lua(
  local moonring = require "moonring"
  local kind, path = table.remove(arg, 1), table.remove(arg, 1)
  local function objective(_, policy)
    local reference = moonring.model.load(moonring.model.open(path),
      { frozen = true, precision = "fp64" })
    local function all(model, hidden) -- log-probs [T, V]
      return hidden:matmul(model:head():weight():use():t()):log_softmax(-1)
    end
    return {
      level = kind == "documents" and "sequence" or "token",
      count = function(batch) return batch:count_targets() end,
      values = function(batch, hidden)
        local mine, of = all(policy, hidden), all(reference, batch:reference_hidden(reference))
        local is_target = batch.targets:ge(0)
        local function at(every)
          return every:gather(1, batch.targets:clamp(0):unsqueeze(1)):squeeze(1) * is_target
        end
        return { mine = at(mine), reference = at(of):detach(),
          kl = (of:exp() * (of - mine)):sum(-1) * is_target }
      end,
      loss = function(batch, of)
        if kind == "documents" then
          local mine, reference = batch:document_sums(of.mine), batch:document_sums(of.reference)
          return -mine:sum() + (mine - reference):square():sum() * 0.1
        end
        local ratio = of.reference - of.mine
        local term = kind == "tokens" and (ratio:exp() - ratio - 1) or of.kl
        return -of.mine:sum() + term:sum()
      end,
    }
  end
  local run = moonring.run.open(moonring.config.command(arg), { objective = objective })
  for step in run:steps() do run:log(run:update(step)) end
  run:finish()
)lua";

class CustomReferenceTest : public InvarianceTest {
 protected:
  CustomReferenceTest() {
    Write("all.lua", kAsked);
    for (const char* kind : {"documents", "tokens", "distributions"})
      Write(std::string(kind) + ".lua", std::string("return dofile(\"all.lua\").") + kind + "\n");
    Write("expected.lua", kExpected);
  }

  Words Keys(const std::string& out) const {
    return {"model_name_or_path=" + golden_ + "model",
            "dataset_dir=" + Path("data"),
            "dataset=talks",
            "stage=sft",
            "template=chatml",
            "finetuning_type=full",
            "cutoff_len=1024",
            "per_device_train_batch_size=4",
            "max_samples=8",
            "max_steps=2",
            "optim=sgd",
            "lr_scheduler_type=constant",
            "learning_rate=0.1",
            "fp64=true",
            "logging_steps=1",
            "overwrite_output_dir=true",
            "output_dir=" + out};
  }

  std::vector<double> Losses(const Words& command, const Words& more) const {
    const std::string out = "out" + std::to_string(++runs_);
    EXPECT_THAT(Run(command + Keys(out) + more), Succeeds());
    std::vector<double> losses;
    for (const nlohmann::json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains("loss")) losses.push_back(line["loss"]);
    }
    EXPECT_EQ(losses.size(), 2);
    return losses;
  }

  void ExpectLosses(const std::vector<double>& losses, const std::vector<double>& expected) const {
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9 * expected[i]) << i;
  }

 private:
  mutable int runs_ = 0;
};

TEST_F(CustomReferenceTest, OfEveryKindAndFinetuningType) {
  const std::string other = golden_ + "model_short", base = golden_ + "model";
  const Words lora = {"finetuning_type=lora", "adapter_name_or_path=" + golden_ + "adapter"};
  for (const std::string kind : {"documents", "tokens", "distributions"}) {
    SCOPED_TRACE(kind);
    const Words asked = {"train", "objective=" + kind + ".lua"};
    const std::vector<double> of_other = Losses({"expected.lua", kind, other}, {}),
                              of_base = Losses({"expected.lua", kind, base}, {}),
                              of_lora = Losses({"expected.lua", kind, base}, lora);
    EXPECT_NE(of_other, of_base);
    ExpectLosses(Losses(asked, {"ref_model=" + other}), of_other);
    ExpectLosses(Losses(asked, {"ref_model=" + other, "sequence_parallel_size=2"}), of_other);
    ExpectLosses(Losses(asked, {}), of_base);
    ExpectLosses(Losses(asked, lora), of_lora);
    if (kind != "documents") continue;
    ExpectLosses(Losses(asked, {"ref_model=" + other, "precompute_ref_log_probs=true"}), of_other);
    ExpectLosses(Losses(asked, Words{"precompute_ref_log_probs=true"} + lora), of_lora);
    ExpectLosses(Losses(asked, {"precompute_ref_log_probs=true", "zero_stage=3"}), of_base);
  }
}

TEST_F(CustomReferenceTest, OfTextsAndOfPairs) {
  const std::string other = golden_ + "model_short";
  for (const Words& data : {Words{"stage=pt", "dataset=texts", "cutoff_len=128"},
                            Words{"stage=dpo", "dataset=pairs"}}) {
    SCOPED_TRACE(data[0]);
    ExpectLosses(Losses({"train", "objective=tokens.lua"}, data + Words{"ref_model=" + other}),
                 Losses({"expected.lua", "tokens", other}, data));
  }
}

TEST_F(CustomReferenceTest, WhatCannotWorkIsRefusedByName) {
  Write("masked.lua", R"lua(
local o = dofile "documents.lua"
o.mask = function(batch) return { prefix = batch:sequence():prompts() } end
return o
)lua");
  Write("none.lua", R"lua(
return { level = "token", count = function(batch) return batch:count_targets() end,
  loss = function(_, log_probs) return -log_probs:sum() end }
)lua");
  Write("later.lua", "return function() return dofile \"none.lua\" end\n");
  Write("scored.lua", "local o = dofile \"none.lua\" o.needs_reference = \"scored\" return o\n");
  const std::string other = "ref_model=" + golden_ + "model_short",
                    stored = "precompute_ref_log_probs=true";
  struct Refused {
    Words keys;
    std::string words;
  };
  for (const Refused& each : std::vector<Refused>{
           {{"objective=tokens.lua", stored},
            "precompute_ref_log_probs: it stores log-probs of "
            "documents"},
           {{"objective=distributions.lua", stored}, "needs_reference = \"distributions\""},
           {{"objective=masked.lua", stored}, "without a mask"},
           {{"objective=documents.lua", stored, "neat_packing=true"}, "neat_packing"},
           {{"objective=none.lua", other}, "none.lua: the objective has no reference"},
           {{"objective=later.lua", other}, "later.lua: the objective has no reference"},
           {{"objective=none.lua", stored}, "precompute_ref_log_probs: none.lua: the objective"},
           {{"objective=scored.lua"}, "needs_reference = \"scored\" is for stages that generate"},
           {{other}, "ref_model: in stage sft only use_asft_loss"},
           {{other, "stage=pt", "dataset=texts"}, "ref_model: no reference is used in stage pt"},
           {{stored}, "precompute_ref_log_probs: no reference is used in stage sft"}}) {
    const CommandResult result = Run(Words{"train"} + Keys("refused") + each.keys);
    EXPECT_EQ(result.exit_code, 2) << result.Describe();
    EXPECT_THAT(result.err, HasSubstr(each.words));
  }
}

}  // namespace
}  // namespace moonring::testing
