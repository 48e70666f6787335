// Optimizers, schedules and objectives in Lua files that keys name: they compute what they define,
// give the same results on any number of ranks, resume bit-identically, and are rejected with one
// message if invalid.

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// AdamW by its formula; each step replaces its state tensors.
constexpr char kAdamW[] = R"lua(
return function(c, model)
  local b1, b2, eps = c.adam_beta1, c.adam_beta2, c.adam_epsilon
  return {
    name = "AdamW in Lua",
    state = function(p) return { exp_avg = p:zeros(), exp_avg_sq = p:zeros() } end,
    step = function(p, g, s, lr, k)
      if p.decays then p.weight = p.weight * (1 - lr * c.weight_decay) end
      s.exp_avg = s.exp_avg * b1 + g * (1 - b1)
      s.exp_avg_sq = s.exp_avg_sq * b2 + g * g * (1 - b2)
      p.weight = p.weight - s.exp_avg / (s.exp_avg_sq:sqrt() / math.sqrt(1 - b2 ^ k) + eps)
        * (lr / (1 - b1 ^ k))
    end,
  }
end
)lua";

// An optimizer that divides a matrix's update by the norm of its whole momentum; its state is a
// tensor of the matrix's shape and a number.
constexpr char kWhole[] = R"lua(
return {
  moments = 1,
  whole = function(p) return p.ndim == 2 end,
  state = function(p)
    return { m = p:zeros(), norm = p.weight:norm() * 0 }
  end,
  step = function(p, gradient, state, lr)
    state.m = state.m * 0.9 + gradient
    if p.whole then state.norm = state.m:norm() else state.norm = state.norm + 1 end
    p.weight = p.weight - state.m * (lr / (p.whole and state.norm:item() + 1e-9 or 1))
  end,
}
)lua";

// A schedule that computes a step's rate from the previous step's.
constexpr char kStateful[] = R"lua(
local schedule = { rate = 2e-3 }
function schedule:at(k, total, config)
  self.rate = self.rate * 0.75 + config.learning_rate * k / total
  return self.rate
end
function schedule:state() return { rate = self.rate } end
function schedule:load_state(state) self.rate = state.rate end
return schedule
)lua";

class CustomPiecesTest : public ResumedRuns {
 protected:
  static std::string Example(const std::string& name) {
    return Runfile("scripts/examples/" + name + ".lua");
  }

  // Returns the greatest relative distance between the same tensor of two saved models.
  double Distance(const std::string& a, const std::string& b) const {
    const StoredTensors of_a = ReadSafetensors(Path(a + "/model.safetensors")),
                        of_b = ReadSafetensors(Path(b + "/model.safetensors"));
    EXPECT_EQ(of_a.size(), of_b.size());
    double worst = 0;
    for (const auto& [name, tensor] : of_a)
      worst = std::max(worst, RelativeDistance(of_b.at(name).values, tensor.values));
    return worst;
  }

  void ExpectRefused(const std::string& file, const std::string& text, const std::string& key,
                     const std::string& why, int code = 2) const {
    SCOPED_TRACE(text);
    Write(file, text);
    const CommandResult result = Train("refused", {key + "=" + file, "overwrite_output_dir=true"});
    EXPECT_EQ(result.exit_code, code) << result.Describe();
    EXPECT_THAT(result.err, HasSubstr("moonring: " + why));
  }
};

// Compares with the built-in optimizer on the gradients of 20 steps in fp64. The comparison is made
// in Lua, where numbers keep all digits.
TEST_F(CustomPiecesTest, AdamWInLuaIsTheBuiltIn) {
  Write("adamw.lua", kAdamW);
  Write("both.lua", R"lua(
    local moonring = require "moonring"
    local folder, precision, bound = arg[1], arg[2], tonumber(arg[3])
    local c = { adam_beta1 = 0.9, adam_beta2 = 0.99, adam_epsilon = 1e-8, weight_decay = 0.1 }
    local mesh = moonring.comm.mesh {}
    local attention = moonring.attention.create { mesh = mesh }
    local sequence = moonring.comm.sequence { documents = { { 5, 6, 7, 8, 9, 1, 2 }, { 3, 4 } } }
    local ids, positions, targets, plan = attention:cut(sequence)
    local function taught(optimizer_over)
      local zero = moonring.trainer.zero { mesh = mesh }
      local model = moonring.model.load(moonring.model.open(folder), { precision = precision })
      local states = zero:states(model:parameters())
      return { model = model, states = states, optimizer = optimizer_over(states:parameters()) }
    end
    local ours = taught(function(parameters)
      return moonring.optimizer(dofile "adamw.lua"(c)):over(parameters)
    end)
    local theirs = taught(function(parameters)
      return moonring.trainer.adamw(parameters, { beta1 = c.adam_beta1, beta2 = c.adam_beta2,
        epsilon = c.adam_epsilon, weight_decay = c.weight_decay })
    end)
    local function list(of) return of.states:parameters():list() end
    for k = 1, 20 do
      for _, each in ipairs { ours, theirs } do
        local hidden = each.model:forward(ids, positions, plan)
        local loss = -moonring.objectives.log_prob(hidden, each.model:head(), targets,
          { dtype = each.model:matmul_dtype() }):sum()
        loss:backward()
        each.states:sum_gradients()
        each.optimizer:step(1e-3 / k)
        each.states:publish()
        each.states:clear_gradients()
      end
      for i, parameter in ipairs(list(ours)) do
        local mine, other = parameter:weight():to "fp64", list(theirs)[i]:weight():to "fp64"
        local distance = (mine - other):norm():item() / other:norm():item()
        assert(distance <= bound, ("step %d, %s: %g"):format(k, parameter:name(), distance))
        -- The next gradients are of the same weights.
        if precision == "fp32" then parameter:weight():copy_(list(theirs)[i]:weight()) end
      end
    end
    assert(ours.optimizer:state_bytes() == theirs.optimizer:state_bytes())
    print(tostring(ours.optimizer))
  )lua");
  const std::string model = Runfile("tests/golden/stages/model");
  EXPECT_THAT(Run({"both.lua", model, "fp64", "1e-12"}), Succeeds());
  EXPECT_THAT(Run({"both.lua", model, "fp32", "1e-6"}), Succeeds());
}

// Sign-SGD in closed form: the first step changes each weight by the learning rate, or not at all
// if its gradient is 0.
TEST_F(CustomPiecesTest, SignSgdMovesByTheRate) {
  ASSERT_THAT(Train("out", {"max_steps=1", "optim=" + Example("sign_sgd"), "weight_decay=0",
                            "lr_scheduler_type=constant"}),
              Succeeds());
  const StoredTensors before =
                          ReadSafetensors(Runfile("tests/golden/stages/model/model.safetensors")),
                      after = ReadSafetensors(Path("out/model.safetensors"));
  size_t moved = 0, all = 0;
  for (const auto& [name, tensor] : before) {
    for (size_t i = 0; i < tensor.values.size(); ++i, ++all) {
      const double step = std::fabs(after.at(name).values[i] - tensor.values[i]);
      if (step == 0) continue;
      ++moved;
      ASSERT_NEAR(step, 1e-3, 3e-7) << name << " " << i;
    }
  }
  EXPECT_GT(moved, all / 2);
  EXPECT_THAT(ReadText(Path("out/README.md")), HasSubstr("- optimizer: sign-SGD ("));
}

TEST_F(CustomPiecesTest, AreTheSameOnAnyRanks) {
  Write("adamw.lua", kAdamW);
  Write("whole.lua", kWhole);
  Write("stateful.lua", kStateful);
  const Words two = {"-n", "2"}, halved = {"per_device_train_batch_size=1"};
  struct Shape {
    std::string name;
    Words words, options;
  };
  const std::vector<Shape> shapes = {
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"dp2", halved, two},
      {"zero1", halved + Words{"zero_stage=1"}, two},
      {"zero2", halved + Words{"zero_stage=2"}, two},
      {"zero3", halved + Words{"zero_stage=3"}, two},
      {"sp2zero3", {"sequence_parallel_size=2", "zero_stage=3"}, {}}};
  for (const std::string& optim :
       {std::string("adamw.lua"), std::string("whole.lua"), Example("sign_sgd")}) {
    const Words words = {"optim=" + optim, "lr_scheduler_type=stateful.lua", "max_steps=3",
                         "save_strategy=no", "fp64=true"};
    const std::string plain = fs::path(optim).stem().string();
    ASSERT_THAT(Train(plain, words), Succeeds());
    for (const Shape& shape : shapes) {
      const std::string out = plain + "_" + shape.name;
      SCOPED_TRACE(out);
      ASSERT_THAT(Train(out, words + shape.words, shape.options), Succeeds());
      EXPECT_LE(Distance(plain, out), 1e-7);  // of what is read here in fp32
      const auto ours = Steps(out), theirs = Steps(plain);
      ASSERT_EQ(ours.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(ours[i].at("loss").get<double>(), theirs[i].at("loss").get<double>(), 1e-10);
        EXPECT_EQ(ours[i].at("lr"), theirs[i].at("lr"));
      }
    }
  }
}

TEST_F(CustomPiecesTest, ResumeBitForBit) {
  Write("adamw.lua", kAdamW);
  Write("whole.lua", kWhole);
  Write("stateful.lua", kStateful);
  const Words rates = {"lr_scheduler_type=stateful.lua", "max_steps=4"};
  ExpectResumes("adamw", rates + Words{"optim=adamw.lua"}, {2});
  ExpectResumes("lora", rates + Words{"optim=whole.lua", "finetuning_type=lora"}, {2});
  ExpectResumes("bf16", rates + Words{"optim=adamw.lua", "pure_bf16=true"}, {2});
  ExpectResumes("zero2",
                rates + Words{"optim=whole.lua", "zero_stage=2", "per_device_train_batch_size=1"},
                {2}, {"-n", "2"});
  // A checkpoint of two ranks resumes on one, where only the order of the gradients' sums differs.
  KeepUpTo("zero2", 2, "alone");
  ASSERT_THAT(Train("alone", rates + Words{"optim=whole.lua", "resume_from_checkpoint=true"}),
              Succeeds());
  EXPECT_LE(Distance("zero2", "alone"), 1e-6);
}

TEST_F(CustomPiecesTest, ResumeAfterAKill) {
  Write("whole.lua", kWhole);
  Write("stateful.lua", kStateful);
  const Words words = {"optim=whole.lua", "lr_scheduler_type=stateful.lua", "max_steps=6",
                       "sequence_parallel_size=2", "zero_stage=1"};
  ASSERT_THAT(Train("unbroken", words), Succeeds());
  Command command(Options(Paused("5", CommandOf("killed", words))));
  ASSERT_TRUE(command.WaitForOutput("step 4/6")) << command.Wait().Describe();
  const std::vector<pid_t> ranks = command.Children();
  ASSERT_FALSE(ranks.empty());
  kill(ranks.front(), SIGKILL);
  EXPECT_NE(command.Wait().exit_code, 0);
  const CommandResult result = Train("killed", words + Words{"resume_from_checkpoint=true"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("goes on after step "));
  ExpectSameRun("unbroken", "killed");
}

// On resuming, files are compared by contents, not by path. Another optimizer is rejected; another
// schedule is only reported.
TEST_F(CustomPiecesTest, AChangedFileIsAnotherRun) {
  Write("adamw.lua", kAdamW);
  Write("rate.lua", "return function(k, total, config) return config.learning_rate end");
  const Words words = {"optim=adamw.lua", "lr_scheduler_type=rate.lua"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=1"}), Succeeds());
  const auto resumed = [&](const Words& more) {
    return Train("out", words + Words{"resume_from_checkpoint=true"} + more);
  };
  Write("rate.lua", "return function(k, total, config) return config.learning_rate / 2 end");
  const CommandResult told = resumed({"max_steps=2"});
  ASSERT_THAT(told, Succeeds());
  EXPECT_THAT(told.err, HasSubstr("resumes with a change: lr_scheduler_type was rate.lua (sha1 "));
  fs::create_directories(Path("elsewhere"));
  Write("elsewhere/mine.lua", kAdamW);
  ASSERT_THAT(resumed({"max_steps=3", "optim=elsewhere/mine.lua"}), Succeeds());
  Write("adamw.lua", std::string(kAdamW) + "-- another\n");
  EXPECT_THAT(
      resumed({"max_steps=4"}),
      FailsWith(2, AllOf(HasSubstr("is of another run: optim was elsewhere/mine.lua (sha1 "),
                         HasSubstr("), is adamw.lua (sha1 "))));
}

// Ranks that are started one by one, as on several machines, may have files of different names, but
// the contents must be equal.
TEST_F(CustomPiecesTest, RanksMustHaveOneFile) {
  Write("a.lua", kAdamW);
  Write("same.lua", kAdamW);
  Write("b.lua", std::string(kAdamW) + "-- another\n");
  for (const auto& [other, code] : {std::pair("same.lua", 0), std::pair("b.lua", 2)}) {
    const std::string port = FreePort();
    std::vector<std::unique_ptr<Command>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      CommandOptions options =
          Options(CommandOf("out", {"max_steps=1", "overwrite_output_dir=true",
                                    std::string("optim=") + (rank == 0 ? "a.lua" : other)}));
      options.environment.insert({{"WORLD_SIZE", "2"},
                                  {"RANK", std::to_string(rank)},
                                  {"LOCAL_RANK", std::to_string(rank)},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", port}});
      ranks.push_back(std::make_unique<Command>(options));
    }
    const CommandResult first = ranks[0]->Wait(), second = ranks[1]->Wait();
    EXPECT_EQ(first.exit_code, code) << first.Describe();
    EXPECT_EQ(second.exit_code, code) << second.Describe();
    EXPECT_EQ(first.err.find("optim is a file of sha1 ") != std::string::npos, code != 0);
  }
}

// An objective with its stage's definition gives the same results, and inherits everything that it
// does not define.
TEST_F(CustomPiecesTest, AnObjectiveInheritsTheRun) {
  Write("loss.lua", R"lua(
    return function(config, model)
      assert(config.stage == "sft" and model:parameters():size() > 0)
      return { level = "token", count = function(batch) return batch:count_targets() end,
        loss = function(_, log_probs) return -log_probs:sum() end }
    end
  )lua");
  const Words words = {"max_steps=3",  "finetuning_type=lora",
                       "val_size=6",   "eval_strategy=steps",
                       "eval_steps=1", "load_best_model_at_end=true"};
  ASSERT_THAT(Train("built_in", words + Words{"count=targets"}), Succeeds());
  ASSERT_THAT(Train("own", words + Words{"objective=loss.lua"}), Succeeds());
  const auto ours = Steps("own"), theirs = Steps("built_in");
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i].at("loss").get<double>(), theirs[i].at("loss").get<double>(), 1e-6);
  EXPECT_TRUE(ReadText(Path("own/adapter_model.safetensors")) ==
              ReadText(Path("built_in/adapter_model.safetensors")));
  EXPECT_TRUE(fs::exists(Path("own/eval_results.json")));
  ExpectResumes("resumed", {"max_steps=3", "objective=loss.lua"}, {1});
}

TEST_F(CustomPiecesTest, AreRefusedBeforeTheFirstStep) {
  for (const std::string key : {"optim", "objective", "lr_scheduler_type"}) {
    EXPECT_THAT(Train("out", {key + "=none.lua"}), FailsWith(2, HasSubstr(key + ": cannot read")));
    ExpectRefused("bad.lua", "return {", key, key + ": bad.lua:1: unexpected symbol near '<eof>'");
    ExpectRefused("bad.lua", "local x = nil + 1", key, key + ": bad.lua:1: attempt to perform");
    ExpectRefused("bad.lua", "local x", key, key + ": bad.lua: it returns nothing");
  }
  ExpectRefused("bad.lua", "return 3", "optim",
                "optim: bad.lua: optimizer: expected a table of options, got number");
  ExpectRefused("bad.lua", "return { stpe = print }", "optim",
                "optim: bad.lua: optimizer: unknown option 'stpe' (did you mean 'step'?)");
  ExpectRefused(
      "bad.lua", "return { step = print, whole = 'matrices' }", "optim",
      "optim: bad.lua: optimizer: option 'whole': expected a boolean or a function, got a "
      "string");
  ExpectRefused("bad.lua", "return function(config, model) return model.none.step end", "optim",
                "optim: bad.lua: bad.lua:1: attempt to index");
  ExpectRefused("bad.lua", "return { level = 'tokens', count = print, loss = print }", "objective",
                "objective: bad.lua: objective: option 'level': expected token or sequence, got "
                "'tokens'");
  ExpectRefused("bad.lua", "return function() return {} end", "objective",
                "objective: option 'count' is missing");
  ExpectRefused(
      "bad.lua", "return 0.1", "lr_scheduler_type",
      "lr_scheduler_type: bad.lua: expected a function or a table with `at`, got a number");
  ExpectRefused("bad.lua", "return { at = 3 }", "lr_scheduler_type",
                "lr_scheduler_type: bad.lua: at: expected a function, got number");
  ExpectRefused("bad.lua", "return { at = print, state = print }", "lr_scheduler_type",
                "lr_scheduler_type: bad.lua: expected both state and load_state, or neither");
  ExpectRefused("bad.lua", "return function() return 0 / 0 end", "lr_scheduler_type",
                "lr_scheduler_type: bad.lua: step 0: expected a rate of 0 or more, got");
  ExpectRefused("bad.lua", "return function(k) return k.x.y end", "lr_scheduler_type",
                "lr_scheduler_type: bad.lua: step 0: bad.lua:1: attempt to index");
  EXPECT_THAT(Train("out", {"objective=mine"}),
              FailsWith(2, HasSubstr("objective: expected the path of a .lua file, got 'mine'")));
  EXPECT_THAT(
      Train("out", {"optim=adam"}),
      FailsWith(2, ContainsRegex("optim: expected adamw_torch \\| adamw_torch_fused \\| .* \\| "
                                 "a .lua file, got 'adam'")));
  Write("adamw.lua", kAdamW);
  EXPECT_THAT(
      Train("out", {"optim=adamw.lua", "offload_optimizer=disk"}),
      FailsWith(2, HasSubstr("offload_optimizer: disk: an optimizer in Lua (adamw.lua) keeps "
                             "its state in memory")));
  Write("file.yaml", "model_name_or_path: model\noptim: none.lua\noutput_dir: out\ndataset: x\n");
  EXPECT_THAT(Run({"train", "file.yaml"}), FailsWith(2, HasSubstr("file.yaml:2: optim: cannot")));
}

TEST_F(CustomPiecesTest, SayWhichParameterTheyFailedAt) {
  const auto refused = [&](const std::string& rule, const std::string& why) {
    ExpectRefused("bad.lua", "return { " + rule + " }", "optim", why, /*code=*/1);
  };
  const std::string first = "model.embed_tokens.weight";
  refused("state = function() return 3 end, step = print",
          "optimizer: state of " + first + ": expected a table of tensors by name, got a number");
  refused("state = function() return { m = 0 } end, step = print",
          "optimizer: state of " + first + ": 'm': expected a tensor, got a number");
  refused("state = function(p) return { step = p:zeros() } end, step = print",
          "optimizer: " + first + ": a state cannot be named 'step'");
  refused("step = function(p) p.weight = p.weight:sum() end",
          "optimizer: step of " + first + ": p.weight: expected a tensor of shape [");
  refused(
      "state = function(p) return { m = p:zeros() } end, "
      "step = function(p, g, s) s.m = s.m:sum() end",
      "optimizer: after the step the state 'm' of " + first + " is [] of Float");
  refused("step = function(p) error 'mine' end",
          "bad.lua:1: mine (the optimizer's step of " + first + ")");
  refused("step = function(p, g) p.weight = p.weight * (0 / 0) end", "optimizer: its step left ");
}

// With --sandbox these files are restricted like a user's script.
TEST_F(CustomPiecesTest, AreConfinedUnderASandbox) {
  fs::copy(Runfile("tests/golden/stages"), Path("stages"), fs::copy_options::recursive);
  Write("adamw.lua", kAdamW);
  Write("thief.lua", "io.open('/etc/passwd')\n" + std::string(kAdamW));
  const Words words = {"model_name_or_path=stages/model", "dataset_dir=stages/data", "max_steps=1"};
  const Words box = {"--sandbox", "--sandbox-root", folder_};
  EXPECT_THAT(Train("boxed", words + Words{"optim=adamw.lua"}, box), Succeeds());
  const CommandResult result = Train("thief", words + Words{"optim=thief.lua"}, box);
  EXPECT_EQ(result.exit_code, 2) << result.Describe();
  EXPECT_THAT(result.err, HasSubstr("optim: thief.lua: --sandbox: there is no io"));
}

TEST_F(CustomPiecesTest, APlanTakesOrGuessesWhatTheyKeep) {
  Write("adamw.lua", kAdamW);
  Write("whole.lua", kWhole);
  const std::string model = Runfile("tests/golden/stages/model");
  const auto plan = [&](const std::string& optim) {
    return Run({"plan", "model_name_or_path=" + model, "finetuning_type=full", "optim=" + optim,
                "memory=8GiB", "device=cpu"});
  };
  const CommandResult guessed = plan("adamw.lua"), said = plan("whole.lua");
  EXPECT_THAT(guessed.out,
              HasSubstr("optimizer: adamw.lua does not state what it keeps (moments): 2 "
                        "numbers per weight are assumed"));
  ASSERT_THAT(said, Succeeds());
  EXPECT_EQ(said.out.find("are assumed"), std::string::npos) << said.out;
}

// A script passes its optimizers and schedules as values, without keys.
TEST_F(CustomPiecesTest, AScriptBringsThem) {
  Write("script.lua", R"lua(
    local moonring = require "moonring"
    local rates = {}
    local run = moonring.run.open(moonring.config.command(arg), {
      optimizer = moonring.optimizer { name = "halving",
        step = function(p, gradient, state, lr, k)
          assert(k == #rates and next(state) == nil and p.numel > 0 and #p.shape == p.ndim)
          p.weight:copy_(p.weight * 0.5)
        end },
      schedule = function(k, total, config)
        rates[#rates + 1] = k
        return config.learning_rate / total
      end })
    for step, k in run:steps() do
      local update = run:update(step)
      assert(#rates == k and math.abs(update.lr - 1e-3 / 2) < 1e-12)
      run:log(update)
    end
    run:finish()
  )lua");
  Words command = CommandOf("out", {"max_steps=2", "save_strategy=no"});
  *std::find(command.begin(), command.end(), "train") = Path("script.lua");
  ASSERT_THAT(Run(command), Succeeds());
  const StoredTensors before =
                          ReadSafetensors(Runfile("tests/golden/stages/model/model.safetensors")),
                      after = ReadSafetensors(Path("out/model.safetensors"));
  for (const auto& [name, tensor] : before) {
    for (size_t i = 0; i < tensor.values.size(); ++i)
      ASSERT_EQ(after.at(name).values[i], tensor.values[i] * 0.25f) << name;
  }
  command.push_back("optim=" + Example("sign_sgd"));
  command.push_back("overwrite_output_dir=true");
  EXPECT_THAT(Run(command), FailsWith(2, HasSubstr("the script passes a custom one too")));
}

}  // namespace
}  // namespace moonring::testing
