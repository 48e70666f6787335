// `moonring check`: right objectives are not accused, and the line of each planted fault is named.
// tests/scripts/objectives has the objectives; a fault's line ends with "-- expected".

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckTest : public Workplace {
 protected:
  const std::string objectives_ = Runfile("tests/scripts/objectives/");
  const std::string golden_ = Runfile("tests/golden/stages");

  // The line that a fault's file marks.
  static int MarkedLine(const std::string& path) {
    std::istringstream text(ReadText(path));
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      if (line.size() >= 11 && line.substr(line.size() - 11) == "-- expected") return number;
    }
    ADD_FAILURE() << path << " marks no line";
    return 0;
  }

  std::vector<std::string> Named(const std::string& prefix, bool is_prefix) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(objectives_)) {
      const std::string name = entry.path().filename();
      if ((name.rfind(prefix, 0) == 0) == is_prefix) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void ExpectRight(const Words& words) const {
    SCOPED_TRACE(::testing::PrintToString(words));
    const CommandResult result = Run(Words{"check"} + words);
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, AllOf(HasSubstr("right: equal in every layout"),
                                  Not(HasSubstr("DIFFERS")), Not(HasSubstr("suspect "))));
  }

  void ExpectFault(const std::string& path) const {
    SCOPED_TRACE(path);
    const CommandResult result = Run({"check", path});
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    const std::string place = path + ":" + std::to_string(MarkedLine(path));
    // A loss that contradicts its level is refused before there is anything to compare.
    const bool is_refused = path.find("/level_") != std::string::npos;
    EXPECT_THAT(result.out, AllOf(HasSubstr(is_refused ? "FAILS" : "DIFFERS"),
                                  HasSubstr("suspect " + place + ": ")));
    EXPECT_THAT(result.err, EndsWith("; suspect " + place + "\n"));
  }

  // The words of a training script with the golden model.
  Words Script(const std::string& name, const std::string& data, const Words& more = {}) const {
    const bool is_command = name.find('/') == std::string::npos;
    return Words{is_command ? name : Runfile(name + ".lua"), "model=" + golden_ + "/model",
                 "dir=" + golden_ + "/data", "template=chatml", "data=" + data} +
           more;
  }
};

// The table shows all layouts; sp 2 cuts every document; the gradients of all layouts are equal to
// fp64's rounding, and finite differences to their own (1e-10).
TEST_F(CheckTest, ARightLossInEveryLayout) {
  Write("focal.lua", R"lua(
    return {
      level = "token",
      count = function(batch) return batch:count_targets() end,
      loss = function(batch, log_probs)
        local p, targets = log_probs:exp(), batch.targets:gt(-1):to "fp64"
        return -((1 - p) ^ 2 * log_probs):sum(),
          { confidence = { (p * targets):sum(), targets:sum() } }
      end,
    })lua");
  const CommandResult result = Run({"check", "focal.lua"});
  ASSERT_THAT(result, Succeeds());
  const std::regex layout(
      R"((sp 1|dp 2|sp 2)[a-z ,]* +(\d)/5 +([\d.]+) +([\d.]+) +(-|([\d.e-]+) ))");
  std::vector<std::string> cut, losses;
  for (std::sregex_iterator found(result.out.begin(), result.out.end(), layout), end; found != end;
       ++found) {
    cut.push_back((*found)[2]);
    losses.push_back((*found)[3]);
    if ((*found)[6].matched) {
      EXPECT_LT(std::stod((*found)[6]), 1e-12);
    }
  }
  EXPECT_EQ(cut, (std::vector<std::string>{"0", "0", "0", "0", "5", "5"})) << result.out;
  for (const std::string& loss : losses) EXPECT_EQ(loss, losses[0]);
  EXPECT_GT(std::stod(losses.at(0)), 1.0);
  const std::regex direction(R"(\n(\d) +(-?[\d.e-]+) +(-?[\d.e-]+) +([\d.e-]+) +equal)");
  int directions = 0;
  for (std::sregex_iterator found(result.out.begin(), result.out.end(), direction), end;
       found != end; ++found, ++directions) {
    EXPECT_LT(std::stod((*found)[4]), 1e-7);
    EXPECT_NE(std::stod((*found)[2]), 0);
  }
  EXPECT_EQ(directions, 3) << result.out;
  EXPECT_THAT(result.out, HasSubstr("confidence"));
}

// A right loss with a gradient that misses what lies on the other rank; no short document shows it.
TEST_F(CheckTest, ATokenLossThroughDocumentSums) {
  ExpectFault(objectives_ + "level_token_of_document_sums.lua");
}

TEST_F(CheckTest, ADetachedFactor) { ExpectFault(objectives_ + "detached_weight.lua"); }

TEST_F(CheckTest, EveryPlantedFault) {
  const std::vector<std::string> faults = Named("right_", false);
  EXPECT_GE(faults.size(), 12u);
  for (const std::string& path : faults) ExpectFault(path);
}

TEST_F(CheckTest, EveryRightObjective) {
  for (const std::string& path : Named("right_", true)) ExpectRight({path});
}

TEST_F(CheckTest, EveryScriptAndExampleWithALoss) {
  const std::string examples = "scripts/examples/";
  ExpectRight(Script("own_loss", "talks"));
  ExpectRight(Script("sft", "talks"));
  ExpectRight(Script("dpo", "pairs"));
  ExpectRight(Script("grpo", "talks"));
  ExpectRight(Script(examples + "token_weights", "talks", {"pattern=o"}));
  ExpectRight(Script(examples + "contrastive", "pairs"));
  ExpectRight(Script(examples + "distill", "talks", {"reference=" + golden_ + "/model_short"}));
  ExpectRight(Script(examples + "prefix_mask", "talks"));
  ExpectRight(Script(examples + "probe_states", "pairs"));
  ExpectRight(Script(examples + "curriculum", "talks"));
}

TEST_F(CheckTest, TheStagesOfConfigurations) {
  const std::vector<std::pair<std::string, std::string>> stages = {
      {"sft", "talks"}, {"pt", "texts"}, {"dpo", "pairs"}, {"rm", "pairs"}, {"kto", "judged"}};
  for (const auto& [stage, dataset] : stages) {
    Write("c.yaml", "model_name_or_path: " + golden_ + "/model\ndataset_dir: " + golden_ +
                        "/data\ntemplate: chatml\nfinetuning_type: lora\nstage: " + stage +
                        "\ndataset: " + dataset + "\nbf16: true\noutput_dir: o\n");
    ExpectRight({"c.yaml"});
  }
}

TEST_F(CheckTest, RefusesWhatItCannotCheck) {
  Write("nothing.lua", "return 3");
  Write("broken.lua", "return {");
  Write("wrong.lua", "return { level = 'Token', count = print, loss = print }");
  EXPECT_THAT(Run({"check"}), FailsWith(2, HasSubstr("usage: moonring check OBJECTIVE.lua")));
  EXPECT_THAT(Run({"check", "no.lua"}), FailsWith(2, HasSubstr("no file 'no.lua'")));
  EXPECT_THAT(Run({"check", "nothing.lua"}), FailsWith(2, HasSubstr("expected a file that returns "
                                                                    "an objective")));
  EXPECT_THAT(Run({"check", "broken.lua"}), FailsWith(2, HasSubstr("broken.lua:1: ")));
  EXPECT_THAT(Run({"-n", "2", "check", "nothing.lua"}),
              FailsWith(2, HasSubstr("leave -n and torchrun out")));
  const CommandResult refused = Run({"check", "wrong.lua"});
  EXPECT_EQ(refused.exit_code, 1) << refused.Describe();
  EXPECT_THAT(refused.out, AllOf(HasSubstr("FAILS"), HasSubstr("expected token or sequence")));
}

}  // namespace
}  // namespace moonring::testing
