// The commands of the quickstart, shortened to one short step: trains SmolLM2, which is part of the
// build, on two ranks, with an answer before and after the training; then chats with the model.

#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class QuickstartTest : public Workplace {};

TEST_F(QuickstartTest, OneStep) {
  CommandOptions options = Options({"train", "scripts/quickstart.yaml", "max_steps=1",
                                    "per_device_train_batch_size=1", "output_dir=" + Path("out")});
  options.folder = "";  // its paths are from the repository's root
  const CommandResult result = RunMoonring(options);
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, AllOf(HasSubstr("before training  Who are you?"),
                                HasSubstr("after training  Who are you?")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 steps of 1 examples on 2 ranks (dp 1 x sp 2)\n"),
                                HasSubstr(Path("out/training_loss.png"))));
  EXPECT_EQ(ReadJsonLines(Path("out/trainer_log.jsonl")).size(), 2);
}

TEST_F(QuickstartTest, TheModelOfTheBuildAnswers) {
  CommandOptions options = Options({"chat", "builtin:smollm2", "max_new_tokens=12"});
  options.input = "What is the capital of France?\n";
  const CommandResult result = RunMoonring(options);
  ASSERT_THAT(result, Succeeds());
  EXPECT_EQ(result.out, "The capital of France is Paris.\n");
}

}  // namespace
}  // namespace moonring::testing
