// A run on a user-defined data source, killed in the middle and resumed, equals an uninterrupted
// one: endless sources with a state, functions and coroutines (which are called again from the
// start), and rows that are preprocessed in batches. Resuming with another source is rejected.

#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class CustomDataResumeTest : public ResumedRuns {
 protected:
  // Writes a source of the given kind that repeats the rows of a golden data set endlessly. If the
  // file `armed` exists, the process kills itself with SIGKILL before row `dies`.
  void WriteSource(const std::string& file, const std::string& name,
                   const std::string& kind) const {
    const std::string begin = R"lua(
      local moonring, ffi = require "moonring", require "ffi"
      ffi.cdef "int kill(int, int); int getpid(void);"
      local function die(given)
        local armed = io.open "armed"
        if not armed then return end
        local dies = armed:read "*n"
        armed:close()
        if given == dies then ffi.C.kill(ffi.C.getpid(), 9) end
      end
      local list, one = {}, moonring.data.rows(")lua" +
                              name + R"lua(", { dataset_dir = ")lua" +
                              Runfile("tests/golden/stages") + R"lua(/data" })
      for row in one.next do list[#list + 1] = row end
      local form = { formatting = one.formatting, columns = one.columns, tags = one.tags }
      local at = 0
      -- Each pass over the rows in another order.
      local function next()
        at = at + 1
        die(at)
        return list[(at * 7 + math.floor(at / #list)) % #list + 1]
      end
      local source = { next = next, formatting = form.formatting, columns = form.columns,
        tags = form.tags }
    )lua";
    const std::string ends = kind == "state"
                                 ? "source.state = function() return { at = at } end\n"
                                   "source.load_state = function(state) at = state.at end\n"
                                   "return source"
                             : kind == "function" ? "return source"
                             : kind == "maker"    ? "return function() at = 0 return source end"
                                                  : "local thread = coroutine.wrap(function()\n"
                                                    "  while true do coroutine.yield(next()) end\n"
                                                    "end)\n"
                                                    "source.next = thread\n"
                                                    "return source";
    Write(file, begin + ends);
  }

  // Runs CommandOf's `train` command on a user-defined source.
  CommandResult Own(const std::string& out, const Words& more, const Words& options = {}) const {
    Words command = CommandOf(out, more, options);
    std::erase(command, "dataset=talks");
    return Run(command);
  }
};

TEST_F(CustomDataResumeTest, KilledRunsEndAsUnbrokenOnes) {
  struct Case {
    std::string kind, data;
    Words more;
    int dies;
    Words options = {};
  };
  const Case cases[] = {
      {"state", "talks", {"max_steps=14"}, 46},
      {"function", "talks", {"max_steps=14"}, 46},
      {"coroutine", "talks", {"max_steps=14", "sequence_parallel_size=2"}, 30},
      {"maker", "talks", {"max_steps=14", "gradient_accumulation_steps=1"}, 30, {"-n", "2"}},
      {"state", "judged", {"max_steps=12", "stage=kto", "preprocessing_batch_size=6"}, 37},
      {"function", "judged", {"max_steps=12", "stage=kto", "preprocessing_batch_size=6"}, 37},
      {"state",
       "talks",
       {"max_steps=10", "neat_packing=true", "preprocessing_batch_size=9", "lora_dropout=0.1",
        "finetuning_type=lora"},
       50},
  };
  int number = 0;
  for (const Case& each : cases) {
    const std::string name = "run" + std::to_string(++number);
    SCOPED_TRACE(name + " " + each.kind + " of " + each.data);
    WriteSource(name + ".lua", each.data, each.kind);
    const Words words = Words{"data_source=" + name + ".lua"} + each.more;
    std::filesystem::remove(Path("armed"));
    ASSERT_THAT(Own(name, words, each.options), Succeeds());
    Write("armed", std::to_string(each.dies));
    const CommandResult killed = Own(name + "_killed", words, each.options);
    ASSERT_NE(killed.exit_code, 0) << killed.Describe();
    ASSERT_FALSE(std::filesystem::exists(Path(name + "_killed/train_results.json")));
    std::filesystem::remove(Path("armed"));
    const CommandResult again =
        Own(name + "_killed", words + Words{"resume_from_checkpoint=true"}, each.options);
    ASSERT_THAT(again, Succeeds());
    EXPECT_THAT(again.err, HasSubstr("goes on after step "));
    ExpectSameRun(name, name + "_killed");
  }
}

// Interrupted within a batch of rows that are preprocessed together, at the end of such a batch,
// and at the end of an epoch.
TEST_F(CustomDataResumeTest, ResumesFromAnyStep) {
  Write("file.lua", "return require('moonring').data.rows('judged', { dataset_dir = '" +
                        Runfile("tests/golden/stages") + "/data' })");
  const Words words = {"data_source=file.lua", "max_steps=13", "stage=kto",
                       "preprocessing_batch_size=8", "save_total_limit=20"};
  ASSERT_THAT(Own("whole", words), Succeeds());
  for (const int step : {1, 2, 3, 9, 10, 11}) {
    SCOPED_TRACE(step);
    const std::string name = "from" + std::to_string(step);
    KeepUpTo("whole", step, name);
    ASSERT_THAT(Own(name, words + Words{"resume_from_checkpoint=true"}), Succeeds());
    ExpectSameRun("whole", name);
  }
}

TEST_F(CustomDataResumeTest, RefusesAnotherSource) {
  const std::string begin = R"lua(local at = 0
    local name, rows = ...
    return { next = function()
      at = at + 1
      return { conversations = { { from = "human", value = "a" .. at },
        { from = "gpt", value = "b" .. at } } }
    end, formatting = "sharegpt")lua";
  Write("s.lua", begin + "}");
  const Words words = {"data_source=s.lua", "max_steps=4"};
  ASSERT_THAT(Own("out", words), Succeeds());
  const auto again = [&](const std::string& text, const Words& more) {
    Write("s.lua", text);
    return Own("out",
               words +
                   Words{"resume_from_checkpoint=out/checkpoint-2", "overwrite_output_dir=true"} +
                   more);
  };
  EXPECT_THAT(again(begin + ", name = 'x' }", {}),
              FailsWith(2, HasSubstr("data_source was s.lua (sha1 ")));
  // Files that the source requires or reads are not compared when the run resumes; only their
  // effect on the rows is noticed.
  const auto by_global = [&](const std::string& value) {
    Write("value.txt", value);
    return begin.substr(0, begin.find("at = at + 1")) + "at = at + 1\n" +
           "local value = io.open('value.txt'):read '*a'\n" +
           "return { conversations = { { from = 'human', value = value .. at }, "
           "{ from = 'gpt', value = 'b' } } } end, formatting = 'sharegpt' }";
  };
  const std::string text = by_global("one");
  Write("s.lua", text);
  ASSERT_THAT(Own("two", words), Succeeds());
  by_global("two");
  EXPECT_THAT(Own("two", words + Words{"resume_from_checkpoint=two/checkpoint-2",
                                       "overwrite_output_dir=true"}),
              FailsWith(2, HasSubstr("s.lua: its first 8 rows are other ones than they were")));
}

}  // namespace
}  // namespace moonring::testing
