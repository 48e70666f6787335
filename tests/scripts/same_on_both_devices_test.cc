// What decides where things lie and in what numbers, on the pretend device beside the CPU: the same
// host twice, by --device. (Stages, losses and kinds of fine-tuning are held against their golden
// runs: stages_test_on_pretend_device.)

#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

class SameOnBothDevicesTest : public Workplace {
 protected:
  struct Case {
    std::string name;
    json keys;
    double tolerance =
        2e-5;  // relative, of losses and gradient norms: fp32 that is added in other orders
    std::string kernels = "fused";
  };

  // The lines of a run of three steps.
  std::vector<json> Steps(const Case& run, const std::string& device) const {
    const std::string folder = Runfile("tests/golden/stages");
    const json spec = ReadJson(folder + "/cases.json");
    json keys = spec.at("base");
    keys.update(spec.at("cases").at("sft"));
    keys.update({{"model_name_or_path", folder + "/model"},
                 {"dataset_dir", folder + "/data"},
                 {"max_steps", 3},
                 {"output_dir", run.name + "_" + device}});
    keys.erase("use_cpu");
    keys.update(run.keys);
    Write("config.yaml", keys.dump());  // JSON is YAML
    CommandOptions options = Options({"--device", device, "train", "config.yaml"});
    options.environment["MOONRING_KERNELS"] = run.kernels;
    EXPECT_THAT(RunMoonring(options), Succeeds());
    std::vector<json> steps;
    for (const json& line : ReadJsonLines(Path(run.name + "_" + device + "/trainer_log.jsonl"))) {
      if (line.contains("loss")) steps.push_back(line);
    }
    return steps;
  }

  void Compare(const Case& run) const {
    SCOPED_TRACE(run.name);
    const std::vector<json> there = Steps(run, "cuda"), here = Steps(run, "cpu");
    ASSERT_EQ(there.size(), 3);
    ASSERT_EQ(here.size(), 3);
    EXPECT_TRUE(there[0].contains("peak_device_allocated_bytes"));
    EXPECT_FALSE(here[0].contains("peak_device_allocated_bytes"));
    for (size_t step = 0; step < here.size(); ++step) {
      for (const char* number : {"loss", "grad_norm"}) {
        const double wanted = here[step].at(number);
        EXPECT_NEAR(there[step].at(number).get<double>(), wanted, run.tolerance * std::fabs(wanted))
            << number << " of step " << step + 1;
      }
    }
  }
};

TEST_F(SameOnBothDevicesTest, RandomNumbers) {
  for (const char* kernels : {"fused", "composed"}) {
    Compare({.name = "dropout",
             .keys = {{"finetuning_type", "lora"},
                      {"lora_dropout", 0.2},
                      {"neftune_noise_alpha", 5},
                      {"seed", 7}},
             .kernels = kernels});
  }
}

TEST_F(SameOnBothDevicesTest, WhatLiesElsewhere) {
  Compare({"optimizer", {{"offload_optimizer", "cpu"}}});
  Compare({"optimizer_on_disk", {{"offload_optimizer", "disk"}, {"offload_dir", folder_}}});
  Compare({"activations", {{"activation_offload", "cpu"}}});
  Compare({"shards", {{"zero_stage", 3}}});
}

TEST_F(SameOnBothDevicesTest, WhatIsKept) {
  for (const char* kept : {"none", "selective"}) Compare({kept, {{"recompute", kept}}});
}

TEST_F(SameOnBothDevicesTest, Deterministic) {
  Compare({"deterministic", {{"full_determinism", true}}});
}

// Products round to 3 digits, in places that each device chooses.
TEST_F(SameOnBothDevicesTest, InBf16) {
  for (const char* kernels : {"fused", "composed"}) {
    Compare({"bf16", {{"bf16", true}}, 5e-3, kernels});
    Compare({"pure_bf16", {{"pure_bf16", true}}, 5e-3, kernels});
  }
}

TEST_F(SameOnBothDevicesTest, AnUnknownWordForKernels) {
  CommandOptions options = Options({"help"});
  options.environment["MOONRING_KERNELS"] = "fast";
  EXPECT_THAT(
      RunMoonring(options),
      FailsWith(2, ::testing::HasSubstr("MOONRING_KERNELS='fast': wanted fused or composed")));
}

}  // namespace
}  // namespace moonring::testing
