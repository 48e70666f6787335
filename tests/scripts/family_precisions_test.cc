// Trains every model family in fp32, bf16 and fp16 on the pretend device (a simulated GPU) and
// compares with fp32 on the CPU. Full fine-tuning is tested in each precision, LoRA in one of the
// three, in turn from family to family. The calls take the GPU's path, so a combination of dtypes
// without a kernel fails here.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/golden_families.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

// The allowed distance from fp32 on the CPU, relative: of the loss, and of the norm of all
// gradients. fp32 differs only by the order of sums. In 16 bits each operator rounds, and these
// tiny random models amplify rounding: for Qwen3.5 on six inputs, the bf16 norm on the CPU itself
// differs by up to 29 % from that of fp32. The bounds still reveal a wrong factor, or a combination
// of dtypes without a kernel. If the CPU itself differs more in that precision, kOfTheCpus times
// its distance is allowed.
struct Precision {
  const char* key;
  double loss, norm;
};
constexpr Precision kPrecisions[] = {
    {"", 1e-5, 2e-4}, {"bf16=true", 2e-2, 5e-1}, {"fp16=true", 4e-3, 1e-1}};
constexpr double kOfTheCpus = 3;

class FamilyPrecisionsTest : public Workplace, public ::testing::WithParamInterface<std::string> {
 protected:
  json Probe(const std::string& device, const std::vector<std::string>& keys) const {
    CommandOptions options =
        Options({"--device", device, "probe", "out=out.json", "input=in.json",
                 "model_name_or_path=" + Runfile(kGoldenFamilies + GetParam())});
    options.arguments.insert(options.arguments.end(), keys.begin(), keys.end());
    EXPECT_THAT(RunMoonring(options), Succeeds());
    return ReadJson(Path("out.json"));
  }

  // Returns the precision in which this family is tested with LoRA.
  static const Precision& OfLora() {
    const std::vector<std::string> families = GoldenFamilies();
    const auto index = std::find(families.begin(), families.end(), GetParam()) - families.begin();
    return kPrecisions[index % std::size(kPrecisions)];
  }

  static double Apart(const json& a, const json& b, const char* number) {
    const double wanted = b.at(number);
    return std::abs(a.at(number).get<double>() - wanted) / std::abs(wanted);
  }
};

TEST_P(FamilyPrecisionsTest, IsTheCpus) {
  json input = {{"input_ids", json::array()}, {"labels", json::array()}, {"positions", {1, 20}}};
  input["lengths"] = {9, 12};
  for (int i = 0; i < 21; ++i) {
    input["input_ids"].push_back(5 + (i * i * 7 + 3 * i) % 40);
    input["labels"].push_back(input["input_ids"].back());
  }
  Write("in.json", input.dump());
  for (const std::vector<std::string>& kind :
       {std::vector<std::string>{}, {"finetuning_type=lora", "lora_target=all"}}) {
    const json wanted = Probe("cpu", kind);
    ASSERT_GT(wanted.at("grad_norm_total").get<double>(), 0);
    for (const Precision& precision : kPrecisions) {
      if (!kind.empty() && &precision != &OfLora()) continue;
      SCOPED_TRACE((kind.empty() ? "full " : "lora ") + std::string(precision.key));
      std::vector<std::string> keys = kind;
      if (*precision.key != '\0') keys.push_back(precision.key);
      const json found = Probe("cuda", keys), own = Probe("cpu", keys);
      EXPECT_EQ(found.at("grad_norm").size(), wanted.at("grad_norm").size());
      for (const auto& [number, least] :
           {std::pair{"loss", precision.loss}, std::pair{"grad_norm_total", precision.norm}}) {
        const double bound = std::max(least, kOfTheCpus * Apart(own, wanted, number));
        EXPECT_LE(Apart(found, wanted, number), bound) << number;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyPrecisionsTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace moonring::testing
