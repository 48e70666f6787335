// AdamW and Sgd equal torch.optim (golden/optimizers.json, by make_golden.py), the plain formula,
// and their own results after a restart.

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/optimizer/weight_decay.h"
#include "trainer/sharding/state_memory.h"

namespace moonring::trainer {
namespace {

using base::Parameter;

nlohmann::json Golden(const std::string& file) {
  std::ifstream stream("tests/trainer/golden/" + file);
  return nlohmann::json::parse(stream);
}

at::Tensor Values(const nlohmann::json& numbers, at::ScalarType dtype) {
  return at::tensor(numbers.get<std::vector<double>>(), at::kDouble).to(dtype);
}

std::unique_ptr<Optimizer> MakeFromGolden(const nlohmann::json& wanted,
                                          const base::Parameters& parameters) {
  if (wanted["name"] == "sgd")
    return Sgd::Create({.weight_decay = wanted["weight_decay"]}, parameters).value();
  return AdamW::Create({.beta1 = wanted["beta1"],
                        .beta2 = wanted["beta2"],
                        .epsilon = wanted["epsilon"],
                        .weight_decay = wanted["weight_decay"]},
                       parameters)
      .value();
}

double Distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() /
         b.to(at::kDouble).norm().item<double>();
}

// torch's fused AdamW is the same kernel, so the results are bit-identical. Its single-tensor form
// orders the operations differently, which gives some roundings per step. For SGD with decay, torch
// adds decay * w to the gradient, but Sgd scales the weight; again one rounding.
TEST(OptimizerTest, EqualsTorch) {
  const nlohmann::json golden = Golden("optimizers.json");
  ASSERT_EQ(golden["cases"].size(), 12u);
  for (const auto& wanted : golden["cases"]) {
    const at::ScalarType dtype = wanted["dtype"] == "float64" ? at::kDouble : at::kFloat;
    const bool same_bits =
        wanted["name"] == "adamw" ? wanted["fused"].get<bool>() : wanted["weight_decay"] == 0.0;
    base::Parameters parameters;
    for (int i = 0; i < 2; ++i)
      parameters.push_back(
          std::make_shared<Parameter>(wanted["parameters"][i], Values(wanted["start"][i], dtype)));
    const auto optimizer = MakeFromGolden(wanted, parameters);
    for (size_t step = 0; step < wanted["lrs"].size(); ++step) {
      for (int i = 0; i < 2; ++i) {
        parameters[i]->ClearGradient();
        parameters[i]->AddGradient(Values(wanted["gradients"][step][i], dtype));
      }
      optimizer->Step(wanted["lrs"][step]);
      for (int i = 0; i < 2; ++i) {
        SCOPED_TRACE(::testing::Message()
                     << wanted["name"] << " " << wanted["dtype"] << " decay "
                     << wanted["weight_decay"] << " step " << step << " parameter " << i);
        const at::Tensor after = Values(wanted["weights"][step][i], dtype);
        if (same_bits) {
          EXPECT_TRUE(at::equal(parameters[i]->weight(), after));
        } else {
          EXPECT_LE(Distance(parameters[i]->weight(), after), dtype == at::kDouble ? 1e-15 : 5e-7);
        }
      }
    }
  }
}

// Computes the formula in the header in fp64.
TEST(AdamWTest, EqualsTheFormula) {
  const double beta1 = 0.85, beta2 = 0.98, epsilon = 1e-7, decay = 0.05, lr = 3e-3;
  auto weight = std::make_shared<Parameter>("w", at::linspace(-1, 1, 1001, at::kDouble));
  at::Tensor w = weight->weight().clone(), m = at::zeros_like(w), v = at::zeros_like(w);
  const auto adamw = AdamW::Create({beta1, beta2, epsilon, decay}, {weight}).value();
  for (int t = 1; t <= 20; ++t) {
    const at::Tensor g = at::sin(w * t * 3.0);
    weight->ClearGradient();
    weight->AddGradient(g);
    adamw->Step(lr);
    w = w * (1 - lr * decay);
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w = w - lr / (1 - std::pow(beta1, t)) * m /
                (v.sqrt() / std::sqrt(1 - std::pow(beta2, t)) + epsilon);
  }
  EXPECT_LE(Distance(weight->weight(), w), 1e-14);
}

// For a bf16 weight, state and update are fp32 and the weight is rounded once. Its steps equal
// those of an fp32 weight that is rounded after each step.
TEST(AdamWTest, Bf16WeightUpdatedInFp32) {
  auto half =
      std::make_shared<Parameter>("w", at::linspace(-2, 3, 513, at::kFloat).to(at::kBFloat16));
  auto full = std::make_shared<Parameter>("w", half->weight().to(at::kFloat));
  const auto half_adamw = AdamW::Create({.weight_decay = 0.1}, {half}).value(),
             full_adamw = AdamW::Create({.weight_decay = 0.1}, {full}).value();
  for (int t = 1; t <= 5; ++t) {
    const at::Tensor g = at::cos(at::arange(513, at::kFloat) * t);
    for (const auto& parameter : {half, full}) {
      parameter->ClearGradient();
      parameter->AddGradient(g);
    }
    half_adamw->Step(1e-2);
    full_adamw->Step(1e-2);
    full->weight().copy_(full->weight().to(at::kBFloat16));
    EXPECT_EQ(half->weight().scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(half->weight().to(at::kFloat), full->weight()));
  }
  EXPECT_EQ(half_adamw->state_bytes(), 513 * 8 + 4);
}

TEST(OptimizerTest, LeavesFrozenAndUntouchedAlone) {
  auto frozen = std::make_shared<Parameter>("a", at::ones({3}), /*trainable=*/false),
       idle = std::make_shared<Parameter>("b", at::ones({3}));
  const auto adamw = AdamW::Create({.weight_decay = 0.5}, {frozen, idle}).value();
  const auto sgd = Sgd::Create({.weight_decay = 0.5}, {frozen, idle}).value();
  adamw->Step(1.0);
  sgd->Step(1.0);
  EXPECT_TRUE(frozen->weight().eq(1).all().item<bool>());
  EXPECT_TRUE(idle->weight().eq(1).all().item<bool>());
  EXPECT_EQ(adamw->state_bytes(), 0);
}

TEST(SgdTest, OneStepAtRateOneIsTheGradient) {
  auto weight = std::make_shared<Parameter>("w", at::linspace(0, 1, 64, at::kDouble));
  const at::Tensor before = weight->weight().clone(),
                   gradient = at::linspace(5, -5, 64, at::kDouble);
  weight->AddGradient(gradient);
  Sgd::Create({}, {weight}).value()->Step(1.0);
  EXPECT_LE(Distance(before - weight->weight(), gradient), 1e-15);
}

// LoRA+: the learning rate of B and of vectors is `ratio` times that of A. Each step equals the
// plain optimizer's at that rate.
TEST(OptimizerTest, LoraPlusMovesBFaster) {
  const char* names[] = {"base_model.model.q_proj.lora_A.weight",
                         "base_model.model.q_proj.lora_B.weight",
                         "base_model.model.q_proj.lora_magnitude_vector"};
  for (const bool adam : {true, false}) {
    base::Parameters parameters;
    for (int i = 0; i < 3; ++i)
      parameters.push_back(std::make_shared<Parameter>(
          names[i], at::ones(i == 2 ? at::IntArrayRef{3} : at::IntArrayRef{2, 3}, at::kDouble)));
    const auto make = [&](double ratio, const base::Parameters& of) -> std::unique_ptr<Optimizer> {
      if (adam) return AdamW::Create({.weight_decay = 0.1, .loraplus_ratio = ratio}, of).value();
      return Sgd::Create({.weight_decay = 0.1, .loraplus_ratio = ratio}, of).value();
    };
    for (const auto& parameter : parameters)
      parameter->AddGradient(at::full_like(parameter->weight(), 0.5));
    make(4.0, parameters)->Step(0.01);
    for (int i = 0; i < 3; ++i) {
      auto alone = std::make_shared<Parameter>(names[i], at::ones_like(parameters[i]->weight()));
      alone->AddGradient(parameters[i]->gradient());
      make(1.0, {alone})->Step(i == 0 ? 0.01 : 0.04);
      EXPECT_TRUE(at::equal(parameters[i]->weight(), alone->weight())) << names[i];
    }
  }
  EXPECT_FALSE(AdamW::Create({.loraplus_ratio = 0.0}, {}).ok());
}

TEST(AdamWTest, ResumesFromItsState) {
  const auto step = [](AdamW& adamw, Parameter& parameter, int t) {
    parameter.ClearGradient();
    parameter.AddGradient(at::cos(at::arange(100, at::kFloat) * t));
    adamw.Step(1e-2);
  };
  auto weight = std::make_shared<Parameter>("w", at::ones({100}));
  const auto adamw = AdamW::Create({}, {weight}).value();
  for (int t = 1; t <= 3; ++t) step(*adamw, *weight, t);
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : adamw->SaveState()) state[name] = tensor.clone();
  auto other = std::make_shared<Parameter>("w", weight->weight().clone());
  const auto resumed = AdamW::Create({}, {other}).value();
  ASSERT_TRUE(resumed->LoadState(state).ok());
  for (int t = 4; t <= 6; ++t) {
    step(*adamw, *weight, t);
    step(*resumed, *other, t);
  }
  EXPECT_TRUE(at::equal(weight->weight(), other->weight()));
  EXPECT_EQ(state.at("step/w").item<float>(),
            3.0f);  // a copy: continuing did not write to what was handed in

  auto bad = state;
  bad.erase("exp_avg/w");
  EXPECT_EQ(resumed->LoadState(bad).message(), "trainer.adamw: the state of w is incomplete");
  bad = state;
  bad["exp_avg/v"] = at::zeros({1});
  EXPECT_FALSE(resumed->LoadState(bad).ok());
  bad = state;
  bad["exp_avg/w"] = at::zeros({99});
  EXPECT_FALSE(resumed->LoadState(bad).ok());
}

// Counts the allocations.
class CountingMemory : public StateMemory {
 public:
  absl::StatusOr<at::Tensor> Zeros(int64_t numel, at::ScalarType dtype) override {
    numbers += numel;
    return at::zeros({numel}, dtype);
  }
  void Rest(const at::Tensor& piece) override { rested += piece.numel(); }

  int64_t numbers = 0, rested = 0;
};

// A resumed run can load its state even if the memory for states has room for only one copy.
TEST(AdamWTest, LoadsIntoTheMemoryThatItHas) {
  const auto memory = std::make_shared<CountingMemory>();
  auto weight = std::make_shared<Parameter>("w", at::ones({100}));
  auto untouched = std::make_shared<Parameter>("v", at::ones({7}));
  const auto plain = AdamW::Create({}, {weight, untouched}).value();
  weight->AddGradient(at::arange(100, at::kFloat));
  plain->Step(1e-2);
  const auto adamw = AdamW::Create({.memory = memory}, {weight, untouched}).value();
  untouched->AddGradient(at::ones({7}));
  adamw->Step(1e-2);  // its state is another one
  EXPECT_EQ(memory->numbers, 2 * 107);
  memory->rested = 0;
  ASSERT_TRUE(adamw->LoadState(plain->SaveState()).ok());
  EXPECT_EQ(memory->numbers, 2 * 107);
  EXPECT_EQ(memory->rested, 2 * 107);
  const auto loaded = adamw->SaveState();
  for (const auto& [name, tensor] : plain->SaveState()) {
    EXPECT_TRUE(at::equal(loaded.at(name), tensor)) << name;
  }
  EXPECT_EQ(loaded.at("exp_avg/v").abs().sum().item<float>(), 0.0F);  // no step of it was saved
  EXPECT_EQ(loaded.at("step/v").item<float>(), 0.0F);
  // A state that does not fit is rejected before anything is written.
  auto bad = plain->SaveState();
  const at::Tensor kept = bad.at("exp_avg/w").clone();
  bad["exp_avg/w"] = at::zeros({100});
  bad["exp_avg/v"] = at::zeros({7});
  EXPECT_FALSE(adamw->LoadState(bad).ok());
  EXPECT_TRUE(at::equal(adamw->SaveState().at("exp_avg/w"), kept));
}

StepSettings SettingsOf(const nlohmann::json& numbers) {
  return {numbers["beta1"], numbers["beta2"], numbers["epsilon"], numbers["weight_decay"]};
}

// torch's fused AdamW, whose param_groups change before each step, is the same kernel. A missing
// gradient counts as zeros. The weights of norms decay because of decay_all.
TEST(AdamWTest, StepsWithSettingsOfTheirOwnEqualTorch) {
  const nlohmann::json golden = Golden("step_settings.json");
  ASSERT_EQ(golden["cases"].size(), 2u);
  for (const auto& wanted : golden["cases"]) {
    const at::ScalarType dtype = wanted["dtype"] == "float64" ? at::kDouble : at::kFloat;
    base::Parameters parameters;
    for (int i = 0; i < 2; ++i)
      parameters.push_back(
          std::make_shared<Parameter>(golden["parameters"][i], Values(wanted["start"][i], dtype)));
    const auto adamw = AdamW::Create({.decay_all = true}, parameters).value();
    for (size_t step = 0; step < golden["settings"].size(); ++step) {
      for (int i = 0; i < 2; ++i) {
        parameters[i]->ClearGradient();
        if (step != golden["without_gradient"])
          parameters[i]->AddGradient(Values(wanted["gradients"][step][i], dtype));
      }
      const nlohmann::json& settings = golden["settings"][step];
      ASSERT_TRUE(adamw->StepWith(settings["lr"], SettingsOf(settings)).ok());
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE(at::equal(parameters[i]->weight(), Values(wanted["weights"][step][i], dtype)))
            << wanted["dtype"] << " step " << step << " parameter " << i;
    }
  }
}

// All paths of a step use the call's settings: weights updated together (fp32), one by one (bf16),
// moments in bf16 and in 8 bits, and a state in other memory. The closed form of one first step
// with gradient g is w (1 - lr decay) - lr sign(g) for a tiny epsilon; of a second without
// gradient, with betas b1 and b2: m = b1 (1 - b1') g, v = b2 (1 - b2') g^2, where ' marks the
// betas of the first.
TEST(AdamWTest, EachPathUsesTheSettingsOfTheStep) {
  constexpr double kLr = 0.25, kDecay = 0.5;
  const at::Tensor g =
      at::where(at::arange(8192).remainder(2) == 0, at::full({}, 2.0F), at::full({}, -2.0F));
  const auto memory = std::make_shared<CountingMemory>();
  for (const AdamWOptions& options :
       {AdamWOptions{}, AdamWOptions{.moments = MomentDtype::kBf16},
        AdamWOptions{.moments = MomentDtype::k8Bit}, AdamWOptions{.memory = memory}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      auto weight = std::make_shared<Parameter>("w", at::ones({8192}, dtype));
      const auto adamw = AdamW::Create(options, {weight}).value();
      weight->AddGradient(g);
      ASSERT_TRUE(adamw->StepWith(kLr, {0.5, 0.75, 1e-12, kDecay}).ok());
      at::Tensor want = 1 - kLr * kDecay - kLr * g.sign();
      EXPECT_LE(Distance(weight->weight(), want), 4e-3);  // bf16 weights and moments
      weight->ClearGradient();
      ASSERT_TRUE(adamw->StepWith(kLr, {0.8, 0.9, 1e-12, 0.0}).ok());
      const double m = 0.8 * 0.5 / (1 - 0.8 * 0.8), v = 0.9 * 0.25 / (1 - 0.9 * 0.9);
      want = want - kLr * m / std::sqrt(v) * g.sign();
      EXPECT_LE(Distance(weight->weight(), want), 8e-3);
    }
  }
}

TEST(OptimizerTest, RefusesSettingsOfAStep) {
  auto weight = std::make_shared<Parameter>("w", at::ones({3}));
  weight->AddGradient(at::ones({3}));
  const auto adamw = AdamW::Create({}, {weight}).value();
  EXPECT_EQ(adamw->StepWith(1.0, {.beta2 = 1.0}).message(),
            "trainer.adamw: beta2 is 1, expected 0 <= it < 1");
  EXPECT_FALSE(adamw->StepWith(1.0, {.beta1 = std::nan("")}).ok());
  EXPECT_FALSE(adamw->StepWith(1.0, {.weight_decay = -0.1}).ok());
  EXPECT_FALSE(adamw->StepWith(1.0, {.epsilon = 0.0}).ok());
  EXPECT_EQ(Sgd::Create({}, {weight})
                .value()
                ->StepWith(1.0, {.epsilon = 1.0, .weight_decay = 0.0})
                .message(),
            "Optimizer:step: epsilon, weight_decay was given for one step, which only an optimizer "
            "of trainer.adamw accepts; give this optimizer its settings when it is created");
  EXPECT_TRUE(weight->weight().eq(1).all().item<bool>());
  EXPECT_EQ(adamw->state_bytes(), 0);
}

TEST(AdamWTest, RefusesOptionsOutOfRange) {
  EXPECT_EQ(AdamW::Create({.beta1 = 1.0}, {}).status().message(),
            "trainer.adamw: adam_beta1 is 1, expected 0 <= it < 1");
  EXPECT_FALSE(AdamW::Create({.beta2 = -0.1}, {}).ok());
  EXPECT_FALSE(AdamW::Create({.epsilon = -1.0}, {}).ok());
  EXPECT_FALSE(AdamW::Create({.weight_decay = std::nan("")}, {}).ok());
  EXPECT_FALSE(Sgd::Create({.weight_decay = -1.0}, {}).ok());
}

TEST(WeightDecayTest, NamesAsTransformersHasThem) {
  const nlohmann::json golden = Golden("schedules.json");
  for (const auto& [name, decays] : golden["decays"].items())
    EXPECT_EQ(DecaysWeight(name), decays.get<bool>()) << name;
}

}  // namespace
}  // namespace moonring::trainer
