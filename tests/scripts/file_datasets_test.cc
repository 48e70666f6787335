// Data sets that are given by the path of a file, without dataset_info.json. The script compares
// their examples with those of the same files with a description.

#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FileDatasetsTest : public Workplace {
 protected:
  FileDatasetsTest() { WriteModel("model"); }
};

TEST_F(FileDatasetsTest, AreReadLikeDescribedOnes) {
  const CommandResult ran = Run({Runfile("tests/scripts/file_datasets.lua")});
  EXPECT_THAT(ran, Succeeds());
  EXPECT_EQ(ran.out, "6 data sets\n");
}

TEST_F(FileDatasetsTest, AreRefusedWithTheirColumns) {
  Write("odd.jsonl", R"({"instruction": "What?", "text": "The wind.", "n": 1})");
  EXPECT_THAT(
      Run({"preprocess", "model_name_or_path=model", "out=o.jsonl", "--dataset", "odd.jsonl"}),
      FailsWith(2, AllOf(HasSubstr("dataset: odd.jsonl: no dataset_info.json describes it, and its "
                                   "columns (instruction, n, text) do not show how stage sft reads "
                                   "it; expected a list of messages, or an answer (output, "),
                         HasSubstr("name it dataset=odd and describe it in dataset_info.json: "
                                   "{\"odd\": {\"file_name\": \""),
                         HasSubstr(R"({"prompt":"instruction","response":"COLUMN"}})"))));
  EXPECT_THAT(
      Run({"preprocess", "model_name_or_path=model", "out=o.jsonl", "--dataset", "od.jsonl"}),
      FailsWith(2, HasSubstr("dataset: no file od.jsonl (did you mean 'odd.jsonl'?)")));
}

}  // namespace
}  // namespace moonring::testing
