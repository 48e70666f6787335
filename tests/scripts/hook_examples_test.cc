// The examples of hidden states and steering give the same results on any number of ranks.

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

class HookExamplesTest : public Workplace {
 protected:
  std::string home_ = Runfile("tests/golden/stages");

  CommandResult RunExample(Words words, const std::string& name, const Words& more) const {
    words.push_back(Runfile("scripts/examples/" + name + ".lua"));
    words.push_back("model=" + home_ + "/model");
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    return result;
  }

  static std::vector<double> Numbers(const std::string& text) {
    std::vector<double> numbers;
    const std::regex number(R"((loss|accuracy|grad_norm|direction) +([0-9.e+-]+))");
    for (std::sregex_iterator found(text.begin(), text.end(), number), end; found != end; ++found)
      numbers.push_back(std::stod((*found)[2]));
    return numbers;
  }

  // Compares printed numbers, which have six decimals.
  static void ExpectAlike(const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::fabs(b[i])) << i;
  }
};

// A linear probe starts with weights of 0, so its first loss is ln 2 per pair.
TEST_F(HookExamplesTest, AProbeOfStates) {
  const auto learn = [&](const Words& ranks, const Words& more) {
    Words all = {
        "data=pairs", "dir=" + home_ + "/data", "template=chatml", "batch=4", "steps=4", "layer=2",
        "out=out"};
    all.insert(all.end(), more.begin(), more.end());
    return Numbers(RunExample(ranks, "probe_states", all).out);
  };
  const std::vector<double> alone = learn({}, {});
  ASSERT_EQ(alone.size(), 4 * 3u);
  EXPECT_NEAR(alone[0], std::log(2.0), 1e-6);
  EXPECT_GT(alone[2], 0.01);
  const StoredTensors probe = ReadSafetensors(Path("out/probe.safetensors"));
  EXPECT_GT(std::fabs(probe.at("probe.weight").values[0]), 1e-4);
  // The probe's training leaves the model unchanged.
  const StoredTensors before = ReadSafetensors(home_ + "/model/model.safetensors");
  for (const auto& [name, tensor] : ReadSafetensors(Path("out/model.safetensors")))
    EXPECT_EQ(tensor.values, before.at(name).values) << name;
  ExpectAlike(learn({}, {"micro_tokens=1"}), alone);
  ExpectAlike(learn({}, {"sp=2", "micro_tokens=1"}), alone);
  ExpectAlike(learn({"-n", "4"}, {"sp=2"}), alone);
  ExpectAlike(learn({"-n", "2"}, {"strategy=ulysses"}), alone);
  EXPECT_LE(
      RelativeDistance(ReadSafetensors(Path("out/probe.safetensors")).at("probe.weight").values,
                       probe.at("probe.weight").values),
      1e-4);
}

TEST_F(HookExamplesTest, Steering) {
  const Words how = {"layer=2", "scale=4", "tokens=12"};
  const CommandResult alone = RunExample({}, "steer", how);
  ASSERT_EQ(Numbers(alone.out).size(), 1u);
  for (const Words& ranks : {Words{"sp=2"}, Words{"sp=4", "strategy=ulysses"}}) {
    Words all = how;
    all.insert(all.end(), ranks.begin(), ranks.end());
    const CommandResult result = RunExample({}, "steer", all);
    ExpectAlike(Numbers(result.out), Numbers(alone.out));
    // The generated text is equal too, because the logits of this model's likeliest tokens differ
    // by more than rounding.
    EXPECT_EQ(result.out.substr(result.out.find('\n')), alone.out.substr(alone.out.find('\n')));
  }
  const size_t plain = alone.out.find("plain    "), more = alone.out.find("+4  "),
               less = alone.out.find("-4  ");
  ASSERT_NE(less, std::string::npos);
  const std::string answers[] = {alone.out.substr(plain + 9, more - plain - 9),
                                 alone.out.substr(more + 4, less - more - 4),
                                 alone.out.substr(less + 4)};
  EXPECT_NE(answers[0], answers[1]);
  EXPECT_NE(answers[0], answers[2]);
  EXPECT_NE(answers[1], answers[2]);
}

}  // namespace
}  // namespace moonring::testing
