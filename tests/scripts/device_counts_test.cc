// Counts, on the pretend device (a simulated GPU), how often a training step waits for the GPU and
// which copies make it wait. A step's counts are the difference between runs of six steps and of
// two; a micro-batch's are the difference between steps of four micro-batches and of two. The start
// and the end of a run are therefore not counted.

#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

struct Asked {
  double kernels = 0, waits = 0, blocking_copies = 0, blocking_bytes = 0;

  Asked operator-(const Asked& other) const {
    return {kernels - other.kernels, waits - other.waits, blocking_copies - other.blocking_copies,
            blocking_bytes - other.blocking_bytes};
  }
  Asked operator/(double n) const {
    return {kernels / n, waits / n, blocking_copies / n, blocking_bytes / n};
  }
};

class DeviceCountsTest : public Workplace {
 protected:
  // Runs a case of tests/golden/stages for `steps` steps of `micro_batches` each, and returns its
  // counts.
  Asked OfRun(const std::string& name, int steps, int micro_batches, const json& more) const {
    constexpr char kFolder[] = "tests/golden/stages/";
    const json spec = ReadJson(Runfile(kFolder + std::string("cases.json")));
    json keys = spec.at("base");
    keys.update(spec.at("cases").at(name));
    keys.erase("use_cpu");
    for (const char* key : {"model_name_or_path", "adapter_name_or_path", "ref_model"}) {
      if (keys.contains(key)) keys[key] = Runfile(kFolder + keys.at(key).get<std::string>());
    }
    keys["dataset_dir"] = Runfile(kFolder + std::string("data"));
    keys["output_dir"] = "out";
    keys["max_steps"] = steps;
    keys["gradient_accumulation_steps"] = micro_batches;
    keys.update(more);
    Write("config.yaml", keys.dump());  // JSON is YAML
    CommandOptions options = Options({"train", "config.yaml"});
    options.environment["PRETEND_DEVICE_REPORT"] = Path("report");
    const CommandResult result = RunMoonring(options);
    EXPECT_THAT(result, Succeeds());
    const json report = ReadJson(Path("report.0"));
    const json& to = report.at("to_device");
    const json& from = report.at("to_host");
    return {.kernels = report.at("all_kernels"),
            .waits = report.at("all_synchronizations"),
            .blocking_copies = to.at("blocking").get<double>() + from.at("blocking").get<double>(),
            .blocking_bytes =
                to.at("blocking_bytes").get<double>() + from.at("blocking_bytes").get<double>()};
  }

  Asked Step(const std::string& name, int micro_batches, const json& more) const {
    return (OfRun(name, 6, micro_batches, more) - OfRun(name, 2, micro_batches, more)) / 4;
  }

  void Bound(const std::string& name, const json& more = json::object()) const {
    const Asked step = Step(name, 2, more), micro_batch = (Step(name, 4, more) - step) / 2;
    Say("step", step);
    Say("micro_batch", micro_batch);
    EXPECT_GT(micro_batch.kernels, 100);  // it did run there
    EXPECT_LE(step.waits, 3);
    EXPECT_LE(micro_batch.waits, 0);
    EXPECT_LE(micro_batch.blocking_copies, 0);
    // A step's metrics, fp64 numbers of each micro-batch, are read in one copy at the step's end.
    EXPECT_LE(step.blocking_bytes, 400 * 2);
  }

 private:
  static void Say(const std::string& of, const Asked& asked) {
    const auto say = [&](const char* what, double value) {
      RecordProperty(of + "_" + what, std::to_string(value));
      std::printf("%-12s %-16s %8.1f\n", of.c_str(), what, value);
    };
    say("kernels", asked.kernels);
    say("waits", asked.waits);
    say("blocking_copies", asked.blocking_copies);
    say("blocking_bytes", asked.blocking_bytes);
  }
};

TEST_F(DeviceCountsTest, OfSft) { Bound("sft"); }
TEST_F(DeviceCountsTest, OfDpo) { Bound("sigmoid"); }
TEST_F(DeviceCountsTest, OfDpoWithAnAdapter) { Bound("sigmoid_lora"); }
// Offloaded gradients and weights are copied without waiting; a step waits only once, for the
// gradients' norms.
TEST_F(DeviceCountsTest, OfWeightsOnTheHost) {
  const json away = {{"bf16", true}, {"offload_optimizer", "cpu"}, {"offload_weights", "cpu"}};
  Bound("sft", away);
  Bound("sft", {{"bf16", true}, {"offload_optimizer", "cpu"}});
}
TEST_F(DeviceCountsTest, InFewerBits) { Bound("sft", {{"optimizer_state", "8bit"}}); }
TEST_F(DeviceCountsTest, OfKto) { Bound("kto"); }

}  // namespace
}  // namespace moonring::testing
