// Collectives inside losses: losses and gradients do not depend on the number of ranks and equal
// finite differences; and a loss that uses them wrongly is refused, whatever the lengths and ranks.

#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LossCollectivesTest : public InvarianceTest {
 protected:
  // The losses with collectives of custom_objectives.lua: on the data set's conversations, and on
  // documents that leave a rank without a target.
  std::vector<InvarianceCase> CollectiveCases() const {
    json lacking = json::object();
    for (const InvarianceCase& each : Cases()) {
      if (each.name == "some_sft") lacking = each.more;
    }
    const json keys = {{"stage", "sft"}, {"dataset", "talks"}};
    std::vector<InvarianceCase> cases;
    for (const char* name : {"per_token", "per_token_sequence", "exchanged"}) {
      json some = lacking;
      some["objective"] = name;
      cases.push_back({name, keys, {{"objective", name}}});
      cases.push_back({std::string("some_") + name, keys, some});
    }
    return cases;
  }

  std::vector<InvarianceRun> Plan(const std::string& strategy, bool packed) const {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : CollectiveCases())
      plan.push_back(RunOf(each, strategy, packed));
    return plan;
  }
};

TEST_F(LossCollectivesTest, TheSameOnAnyRanks) {
  ASSERT_NO_FATAL_FAILURE(MakeReference(CollectiveCases()));
  Compare({1, 1}, Plan("zigzag-ring", false), 1e-10);
  Compare({2, 2}, Plan("ring", true), 1e-10);
  Compare({4, 2}, Plan("ulysses", false), 1e-10);
  Compare({4, 4}, Plan("zigzag-ring", true), 1e-10);
}

// The script compares gradients with finite differences, and lists the wrong and the right losses.
TEST_F(LossCollectivesTest, TheContractOfTheLevel) {
  for (const int sp : {1, 2}) {
    SCOPED_TRACE(sp);
    EXPECT_THAT(Run({"-n", std::to_string(sp), Runfile("tests/scripts/loss_contract.lua"),
                     "model=" + golden_ + "model_short", "sp=" + std::to_string(sp)}),
                Succeeds());
  }
}

TEST_F(LossCollectivesTest, AWrongLossEndsARunBeforeItsFirstUpdate) {
  Write("wrong.lua", R"lua(
return {
  level = "token",
  count = function(batch) return batch:count_targets() end,
  loss = function(batch, log_probs)
    local sums = batch:document_sums(log_probs)
    return -(sums:sigmoid() * sums):sum()
  end,
}
)lua");
  for (const char* sp : {"1", "2"}) {
    const CommandResult result =
        Run({"train", "model_name_or_path=" + golden_ + "model_short", "stage=sft", "dataset=talks",
             "dataset_dir=" + golden_ + "data", "template=chatml", "finetuning_type=full",
             "max_steps=2", "output_dir=out", "objective=wrong.lua", "overwrite_output_dir=true",
             std::string("sequence_parallel_size=") + sp});
    EXPECT_EQ(result.exit_code, 2) << result.Describe();
    EXPECT_THAT(result.err, AllOf(HasSubstr("wrong.lua:5: objective: level = \"token\", but in its "
                                            "loss a sum over the sp group"),
                                  HasSubstr("batch:per_token(values)")));
  }
}

}  // namespace
}  // namespace moonring::testing
