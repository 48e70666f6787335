// The example scripts give the same results on any number of ranks and with any micro-batches, and
// `needle` finds what is in the text.

#include <cmath>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class ExamplesTest : public Workplace {
 protected:
  std::string home_ = Runfile("tests/golden/stages");

  // Returns all numbers in the output's lines that begin with "step".
  std::vector<double> Steps(std::vector<std::string> words) const {
    for (const std::string& word :
         {"model=" + home_ + "/model", "dir=" + home_ + "/data", std::string("template=chatml")})
      words.push_back(word);
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    std::vector<double> numbers;
    const std::regex number(R"((loss|confidence|grad_norm) +([0-9.e+-]+))");
    for (std::sregex_iterator found(result.out.begin(), result.out.end(), number), end;
         found != end; ++found)
      numbers.push_back(std::stod((*found)[2]));
    return numbers;
  }

  static void ExpectAlike(const std::vector<double>& a, const std::vector<double>& b,
                          double bound) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound * std::fabs(b[i])) << i;
  }
};

// Numbers are printed with four to six decimals, so they may differ by one in the last decimal,
// plus fp32 rounding over a few AdamW steps.
TEST_F(ExamplesTest, ACustomLoss) {
  const std::vector<double> alone = Steps({"own_loss", "data=talks", "batch=6", "steps=3"});
  ASSERT_EQ(alone.size(), 9);
  ExpectAlike(Steps({"own_loss", "data=talks", "batch=6", "steps=3", "micro_tokens=1"}), alone,
              1e-4);
  ExpectAlike(Steps({"-n", "4", "own_loss", "data=talks", "batch=6", "steps=3", "sp=2",
                     "micro_tokens=300"}),
              alone, 1e-4);
  ExpectAlike(Steps({"-n", "3", "own_loss", "data=talks", "batch=6", "steps=3", "sp=3",
                     "strategy=ulysses"}),
              alone, 1e-4);
}

TEST_F(ExamplesTest, Dpo) {
  const std::vector<double> alone = Steps({"dpo", "data=pairs", "batch=10", "out=one"});
  ASSERT_EQ(alone.size(), 8);
  EXPECT_NEAR(alone[0], std::log(2.0), 1e-6);
  ExpectAlike(
      Steps({"-n", "4", "dpo", "data=pairs", "batch=10", "out=two", "sp=2", "micro_tokens=1"}),
      alone, 1e-4);
  const StoredTensors one = ReadSafetensors(Path("one/model.safetensors")),
                      two = ReadSafetensors(Path("two/model.safetensors"));
  for (const auto& [name, tensor] : one)
    EXPECT_LT(RelativeDistance(two.at(name).values, tensor.values), 1e-5) << name;
}

TEST_F(ExamplesTest, Sft) {
  const std::vector<double> alone = Steps({"sft", "data=talks", "batch=20", "epochs=2", "out=one"});
  ASSERT_EQ(alone.size(), 8);
  ExpectAlike(Steps({"-n", "4", "sft", "data=talks", "batch=20", "epochs=2", "out=two", "sp=2",
                     "micro_tokens=300"}),
              alone, 1e-4);
}

// needle prints a table and draws a picture; the table is the same on two ranks. (Results of a real
// model are checked by hand.)
TEST_F(ExamplesTest, Needle) {
  const std::vector<std::string> words = {"needle", home_ + "/model", "lengths=200,300",
                                          "depths=0,100", "template=chatml"};
  const CommandResult one = Run(words);
  ASSERT_THAT(one, Succeeds());
  EXPECT_THAT(one.out, HasSubstr("    tokens      0%  100%\n       200 "));
  EXPECT_EQ(ReadText(Path("needle.png")).substr(1, 3), "PNG");
  for (const std::vector<std::string>& ranks : {std::vector<std::string>{"-n", "2"}, {"-n", "4"}}) {
    std::vector<std::string> more = ranks;
    more.insert(more.end(), words.begin(), words.end());
    more.push_back("sequence_parallel_size=2");
    EXPECT_EQ(Run(more).out, one.out);
  }
  EXPECT_THAT(Run({"needle", home_ + "/model", "lengths=20", "template=chatml"}),
              FailsWith(2, HasSubstr("lengths: the question alone takes ")));
  EXPECT_THAT(Run({"needle", home_ + "/model", "depths=0,200", "template=chatml"}),
              FailsWith(2, "depths: expected numbers from 0 to 100, got '200'"));
  EXPECT_THAT(Run({"needle", home_ + "/model", "out=nowhere/n.png"}),
              FailsWith(2, HasSubstr("no folder 'nowhere'")));
}

}  // namespace
}  // namespace moonring::testing
