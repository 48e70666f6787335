// A custom loss on a rank without targets, while other ranks wait for this rank's backward; and a
// custom loss that has no gradient.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CustomObjectiveTest : public Workplace {
 protected:
  // Five rows of long questions and short answers. When a row is split over two ranks, the first
  // one has no target.
  CustomObjectiveTest() {
    WriteModel("model");
    nlohmann::json rows = nlohmann::json::array();
    for (int row = 0; row < 5; ++row) {
      std::string question;
      for (int word = 0; word < 40 + row; ++word) question += "say " + std::to_string(word) + " ";
      rows.push_back({{"instruction", question}, {"input", ""}, {"output", "yes"}});
    }
    Write("rows.json", rows.dump());
    Write("dataset_info.json", R"({"rows": {"file_name": "rows.json"}})");
  }

  CommandResult Train(const std::string& kind, const std::string& out, const Words& options,
                      const Words& more) const {
    Words words = options;
    const Words keys = {Runfile("tests/scripts/graphless_loss.lua"),
                        kind,
                        "model_name_or_path=model",
                        "dataset_dir=.",
                        "stage=sft",
                        "dataset=rows",
                        "output_dir=" + out,
                        "finetuning_type=full",
                        "template=default",
                        "cutoff_len=2048",
                        "per_device_train_batch_size=5",
                        "micro_batch_tokens=1",
                        "max_steps=2",
                        "logging_steps=1",
                        "learning_rate=1e-3",
                        "save_strategy=no",
                        "ddp_timeout=60"};
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
};

// With ring attention over two ranks, with ZeRO-3 (where a dp rank may also run out of
// micro-batches), and with both: a rank without a loss takes part in the others' backward, and the
// run equals that of a loss that always has a graph.
TEST_F(CustomObjectiveTest, ARankWithNothingToAddJoinsTheBackward) {
  const Words ring = {"sequence_parallel_size=2", "sequence_parallel_mode=ring"};
  const Words zero = {"zero_stage=3", "per_device_train_batch_size=3"};
  const Words both = {"sequence_parallel_size=2", "sequence_parallel_mode=ring", "zero_stage=3"};
  int number = 0;
  for (const Words& more : {ring, zero, both}) {
    const std::string name = "run" + std::to_string(++number);
    SCOPED_TRACE(more[0] + " " + more[1]);
    const CommandResult plain = Train("plain", name + "plain", {"-n", "2"}, more);
    ASSERT_THAT(plain, Succeeds());
    EXPECT_THAT(plain.err, ::testing::ContainsRegex("[1-9][0-9]* times without a target"));
    Words kinds = {"number", "tensor", "values"};
    // With ZeRO-3, computing log-probs gathers the head, so every rank must compute them.
    if (more == ring) kinds.push_back("nothing");
    for (const std::string& kind : kinds) {
      const CommandResult result = Train(kind, name + kind, {"-n", "2"}, more);
      ASSERT_THAT(result, Succeeds());
      EXPECT_EQ(ReadText(Path(name + kind + "/model.safetensors")),
                ReadText(Path(name + "plain/model.safetensors")))
          << kind;
    }
  }
}

TEST_F(CustomObjectiveTest, ALossWithoutAGradientOnAnyRankIsRefused) {
  struct Way {
    std::string name;
    Words options, more;
  };
  const Way ways[] = {{"sp1", {}, {"sequence_parallel_size=1"}},
                      {"sp2", {}, {"sequence_parallel_size=2"}},
                      {"zero3", {"-n", "2"}, {"zero_stage=3", "per_device_train_batch_size=3"}}};
  for (const std::string kind : {"detached", "logits"}) {
    for (const Way& way : ways) {
      SCOPED_TRACE(kind + " at " + way.name);
      const CommandResult result = Train(kind, kind + way.name, way.options, way.more);
      EXPECT_EQ(result.exit_code, 1) << result.Describe();
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr("step 1: the objective's loss has no gradient on any rank"),
                        HasSubstr("objectives.logits, detach, item and tolist leave the graph"),
                        Not(HasSubstr("times without a target"))));
    }
  }
}

}  // namespace
}  // namespace moonring::testing
