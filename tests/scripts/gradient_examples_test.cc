// scripts/examples/pcgrad.lua: the gradient that it combines of two losses is the closed form of
// the two gradients that two other runs compute, each with one of the losses. One step of SGD shows
// a run's gradient: w0 - w1 = lr x gradient.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

// The losses of pcgrad.lua, one at a time.
constexpr char kOneLoss[] = R"lua(
  local moonring = require "moonring"
  local name = table.remove(arg, 1)
  local function objective(_, policy)
    return {
      level = "token",
      count = function(batch) return batch:count_targets() end,
      values = function(batch, hidden)
        if name == "entropy" then return batch:entropy(policy, hidden) end
        return batch:token_log_probs(policy, hidden)
      end,
      loss = function(_, values) return (name == "entropy" and 1 or -1) * values:sum() end,
    }
  end
  local run = moonring.run.open(moonring.config.command(arg), { objective = objective })
  for step in run:steps() do run:log(run:update(step)) end
  run:finish()
)lua";

class GradientExamplesTest : public InvarianceTest {
 protected:
  GradientExamplesTest() { Write("one_loss.lua", kOneLoss); }

  // The gradient of a run's only step.
  Tensors Gradient(const Words& script, const Words& options, const Words& more, double lr) const {
    const std::string out = "out" + std::to_string(++runs_);
    const Words keys = {"model_name_or_path=" + golden_ + "model",
                        "dataset_dir=" + Path("data"),
                        "dataset=talks",
                        "stage=sft",
                        "template=chatml",
                        "finetuning_type=full",
                        "cutoff_len=1024",
                        "global_batch_size=8",
                        "max_samples=8",
                        "max_steps=1",
                        "optim=sgd",
                        "max_grad_norm=0",
                        "lr_scheduler_type=constant",
                        "learning_rate=" + std::to_string(lr),
                        "output_dir=" + out};
    EXPECT_THAT(Run(options + script + keys + more), Succeeds());
    const Tensors before = ReadDoubles(golden_ + "model/model.safetensors");
    Tensors gradient = ReadDoubles(Path(out + "/model.safetensors"));
    for (auto& [name, values] : gradient) {
      const std::vector<double>& from = before.at(name);
      for (size_t i = 0; i < values.size(); ++i) values[i] = (from[i] - values[i]) / lr;
    }
    return gradient;
  }

  // Compares PCGrad on several ranks with the closed form of gradients on one rank.
  void ComparePcGrad(const Words& precision, double lr, double tolerance) const {
    const Words pcgrad = {Runfile("scripts/examples/pcgrad.lua")};
    const Tensors a = Gradient({"one_loss.lua", "likelihood"}, {}, precision, lr),
                  b = Gradient({"one_loss.lua", "entropy"}, {}, precision, lr);
    const double product = Dot(a, b), of_a = product / Dot(b, b), of_b = product / Dot(a, a);
    ASSERT_LT(product, 0);  // the losses conflict
    Tensors expected;
    for (const auto& [name, values] : a) {
      for (size_t i = 0; i < values.size(); ++i)
        expected[name].push_back((1 - of_b) * values[i] + (1 - of_a) * b.at(name)[i]);
    }
    struct Way {
      Words options, more;
    };
    for (const Way& way :
         {Way{{}, {}}, Way{{}, {"micro_batch_tokens=1"}},
          Way{{"-n", "2"}, {"sequence_parallel_size=2", "zero_stage=1"}},
          Way{{"-n", "2"}, {"zero_stage=2", "micro_batch_tokens=1"}},
          Way{{"-n", "4"},
              {"sequence_parallel_size=2", "zero_stage=3", "micro_batch_tokens=300"}}}) {
      SCOPED_TRACE(::testing::PrintToString(way.more));
      Tensors difference = Gradient(pcgrad, way.options, way.more + precision, lr);
      ASSERT_EQ(difference.size(), expected.size());
      for (auto& [name, values] : difference) {
        for (size_t i = 0; i < values.size(); ++i) values[i] -= expected.at(name)[i];
      }
      const double error = std::sqrt(Dot(difference, difference) / Dot(expected, expected));
      EXPECT_LT(error, tolerance);
    }
  }

  static double Dot(const Tensors& a, const Tensors& b) {
    double sum = 0;
    for (const auto& [name, values] : a) {
      for (size_t i = 0; i < values.size(); ++i) sum += values[i] * b.at(name)[i];
    }
    return sum;
  }

 private:
  mutable int runs_ = 0;
};

TEST_F(GradientExamplesTest, PcGradInDoublePrecision) {
  ComparePcGrad({"fp64=true"}, /*lr=*/1, 1e-10);
}

// The learning rate is so large that rounding of the new weights is rounding of the gradient.
TEST_F(GradientExamplesTest, PcGradInSinglePrecision) { ComparePcGrad({}, /*lr=*/1e6, 1e-6); }

}  // namespace
}  // namespace moonring::testing
