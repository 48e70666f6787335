// `auto_find_batch_size`: if memory runs out in a step, or the plan predicts that it will, the run
// is bit-identical to one that used the smaller micro_batch_tokens from the start.

#include <regex>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FindBatchSizeTest : public ResumedRuns {
 protected:
  static Words With(const Words& more) {
    return Words{"max_steps=4", "cpu_products=mkl", "val_size=6", "eval_strategy=steps",
                 "eval_steps=2"} +
           more;
  }
  // Trains with simulated out-of-memory errors (short_of_memory.lua).
  CommandResult Short(const std::string& faults, const std::string& out, const Words& more,
                      const Words& options = {}) const {
    Words command = CommandOf(out, With(Words{"auto_find_batch_size=true"} + more), options);
    const auto train = std::find(command.begin(), command.end(), "train");
    *train = Runfile("tests/scripts/short_of_memory.lua");
    command.insert(train + 1, faults);
    return Run(command);
  }
};

// micro_batch_tokens is 160 x 2 = 320. Memory runs out in the first forward, in a later one (when a
// part of the step's gradient is computed already), and twice.
TEST_F(FindBatchSizeTest, TheRunIsThatOfTheSmallerValue) {
  struct Kind {
    std::string name, faults, tokens;
    Words words, options;
  };
  const std::vector<Kind> kinds = {
      {"first", "0:1", "160", {}, {}},
      {"later", "0:2", "160", {"neftune_noise_alpha=5"}, {}},
      {"lora", "0:2", "160", {"finetuning_type=lora", "lora_dropout=0.1"}, {}},
      {"bco", "0:2", "160", {"stage=dpo", "dataset=pairs", "pref_bco_weight=0.5"}, {}},
      {"stream", "0:2", "160", {"streaming=true", "buffer_size=7"}, {}},
  };
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const CommandResult found = Short(kind.faults, kind.name, kind.words, kind.options);
    ASSERT_THAT(found, Succeeds());
    EXPECT_THAT(found.err, HasSubstr("step 1: memory ran out (out of memory: a fault of its own); "
                                     "auto_find_batch_size: micro_batch_tokens was 320, is "));
    std::smatch tokens;
    ASSERT_TRUE(std::regex_search(found.err, tokens, std::regex("was 320, is ([0-9]+) from")));
    ASSERT_THAT(
        Train(kind.name + "_given",
              With(kind.words + Words{"micro_batch_tokens=" + tokens[1].str()}), kind.options),
        Succeeds());
    ExpectSameRun(kind.name, kind.name + "_given");
  }
}

// Memory runs out on one of two ranks: both repeat the step, also with local_steps.
TEST_F(FindBatchSizeTest, AllRanksAgree) {
  const Words two = {"-n", "2"};
  for (const std::string key : {"zero_stage=1", "local_steps=2"}) {
    SCOPED_TRACE(key);
    const CommandResult found = Short("1:1", key, {key}, two);
    ASSERT_THAT(found, Succeeds());
    std::smatch tokens;
    ASSERT_TRUE(std::regex_search(found.err, tokens, std::regex("was 320, is ([0-9]+) from")));
    ASSERT_THAT(Train(key + "_given", With({key, "micro_batch_tokens=" + tokens[1].str()}), two),
                Succeeds());
    ExpectSameRun(key, key + "_given");
  }
}

// Memory runs out again and again, until every micro-batch has one example.
TEST_F(FindBatchSizeTest, EndsWhereEachExampleIsAlone) {
  const CommandResult never = Short("0:1,0:2,0:3,0:4,0:5,0:6", "never", {});
  EXPECT_EQ(never.exit_code, 1) << never.Describe();
  EXPECT_THAT(never.err, HasSubstr("step 1: out of memory: a fault of its own; "
                                   "auto_find_batch_size: each example goes through a forward "
                                   "alone already"));
}

// Ranks that compute together (sp or ZeRO-3) cannot retry: the run ends as it does without the key.
TEST_F(FindBatchSizeTest, RanksThatComputeTogetherEnd) {
  for (const Words& words : {Words{"sequence_parallel_size=2"}, Words{"zero_stage=3"}}) {
    const CommandResult found =
        Short("0:1,1:1", words[0], words + Words{"overwrite_output_dir=true"}, {"-n", "2"});
    EXPECT_EQ(found.exit_code, 1) << found.Describe();
    EXPECT_THAT(found.err, AllOf(HasSubstr("out of memory: a fault of its own"),
                                 Not(HasSubstr("made again"))));
  }
}

// A resumed run uses the value that was found, and is bit-identical to an uninterrupted one.
TEST_F(FindBatchSizeTest, ContinuesWithTheSizeFound) {
  ASSERT_THAT(Short("0:2", "whole", {}), Succeeds());
  KeepUpTo("whole", 2, "again");
  const CommandResult again =
      Train("again", With({"auto_find_batch_size=true", "resume_from_checkpoint=true"}));
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again.err, HasSubstr("as the checkpoint's run had found it"));
  ExpectSameRun("whole", "again");
}

}  // namespace
}  // namespace moonring::testing
