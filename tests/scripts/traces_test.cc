// Traces of runs of several ranks are well-formed and complete, agree with the bytes that the mesh
// counts, and do not change the weights; and the output of `explain` for them.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Span {
  double begin, end;
  json event;
};

class TracesTest : public Workplace {
 protected:
  TracesTest() {
    WriteModel("model");
    WriteConfig("max_steps: 4\nlogging_steps: 1\nsave_steps: 3\noverwrite_output_dir: true");
  }

  CommandResult Train(int ranks, const std::vector<std::string>& more,
                      const std::string& slow = "none", const std::string& seconds = "0") const {
    std::vector<std::string> words = {
        "-n",    std::to_string(ranks), Runfile("tests/scripts/traced_run.lua"), slow,
        seconds, "config.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }

  // Returns the spans of each row of each rank, outer spans first. Fails the test if two spans
  // overlap without one containing the other.
  static std::map<std::pair<int, int>, std::vector<Span>> Rows(const json& trace) {
    std::map<std::pair<int, int>, std::vector<Span>> rows;
    for (const json& event : trace.at("traceEvents")) {
      EXPECT_TRUE(event.contains("pid") && event.contains("name")) << event;
      if (event.at("ph") != "X") continue;
      const double begin = event.at("ts");
      EXPECT_GE(event.at("dur").get<double>(), 0) << event;
      rows[{event.at("pid"), event.at("tid")}].push_back(
          {begin, begin + event.at("dur").get<double>(), event});
    }
    constexpr double kRounded = 1e-3;  // microseconds that a sum of two numbers may be off
    for (auto& [row, spans] : rows) {
      std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
      });
      std::vector<double> open;
      for (const Span& span : spans) {
        while (!open.empty() && open.back() <= span.begin + kRounded) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(span.end, open.back() + kRounded) << span.event;
        }
        open.push_back(span.end);
      }
    }
    return rows;
  }

  // Returns the bytes sent by each rank, from the lines "rank R sent B".
  static std::map<int, int64_t> Sent(const std::string& err) {
    std::map<int, int64_t> sent;
    std::istringstream text(err);
    for (std::string line; std::getline(text, line);) {
      int rank = 0;
      long long bytes = 0;
      // The output of all ranks but the first has "[rank N] " before this.
      const size_t begin = line.rfind("rank ");
      if (begin != std::string::npos &&
          std::sscanf(line.c_str() + begin, "rank %d sent %lld", &rank, &bytes) == 2)
        sent[rank] = bytes;
    }
    return sent;
  }

  // Returns the numbers of the row `name` in the n-th table that `explain` prints.
  static std::vector<double> Row(const std::string& text, const std::string& name, int table) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first;
      words >> first;
      if (first != name || line.rfind("  ", 0) != 0 || table-- > 0) continue;
      std::vector<double> numbers;
      for (double number; words >> number;) numbers.push_back(number);
      return numbers;
    }
    return {};
  }

  // Checks what every trace must have: steps 2 and 3 of `ranks` ranks.
  void ExpectWhole(const std::string& path, int ranks, const CommandResult& run) const {
    const json trace = ReadJson(Path(path));
    EXPECT_EQ(trace.at("otherData").at("left_out"), 0);
    const auto rows = Rows(trace);
    std::map<int, int64_t> bytes;
    std::map<int, std::map<std::string, int>> count;
    std::map<int, std::map<int, double>> walls;
    for (const auto& [row, spans] : rows) {
      for (const auto& [begin, end, event] : spans) {
        ++count[row.first][event.at("name")];
        if (event.at("cat") == "step") walls[row.first][event.at("args").at("step")] = end - begin;
        if (event.at("cat") == "transfer" && event.at("name") != "receive")
          bytes[row.first] += event.at("args").at("bytes").get<int64_t>();
      }
    }
    EXPECT_EQ(bytes, Sent(run.err)) << run.Describe();
    ASSERT_EQ(count.size(), ranks);
    for (const auto& [rank, of] : count) {
      for (const char* name :
           {"data", "forward", "backward", "optimizer", "gradient sum", "saving", "layer forward",
            "layer backward", "layer recompute", "attention forward", "attention backward",
            "tile forward", "tile backward", "head forward", "head backward", "embedding forward",
            "embedding backward"}) {
        EXPECT_GT(of.contains(name) ? of.at(name) : 0, 0) << name << " of rank " << rank;
      }
      EXPECT_EQ(of.at("step"), 2);
      EXPECT_EQ(walls.at(rank).size(), 2);
    }

    const CommandResult explained = Run({"explain", path});
    ASSERT_THAT(explained, Succeeds());
    // The first table has, per step, means over ranks; the second has, per rank, means over steps.
    const std::vector<double> steps = Row(explained.out, "sum", 0),
                              of_ranks = Row(explained.out, "sum", 1);
    ASSERT_EQ(steps.size(), 2) << explained.out;
    ASSERT_EQ(of_ranks.size(), ranks) << explained.out;
    for (int step = 0; step < 2; ++step) {
      double wall = 0;
      for (const auto& [rank, of_steps] : walls) wall += of_steps.at(step + 2) * 1e-6 / ranks;
      EXPECT_NEAR(steps[step], wall, 0.02 * wall + 1e-4);
    }
    for (const auto& [rank, of_steps] : walls) {
      const double wall = (of_steps.at(2) + of_steps.at(3)) * 1e-6 / 2;
      EXPECT_NEAR(of_ranks[rank], wall, 0.02 * wall + 1e-4);
    }
    EXPECT_THAT(explained.out,
                AllOf(HasSubstr("What to change first:\n  1. "), HasSubstr("\n  3. ")));
  }

  void ExpectSameWeights(const std::string& a, const std::string& b) const {
    for (const std::string name : {"/model.safetensors", "/checkpoint-3/model.safetensors"})
      EXPECT_TRUE(ReadText(Path(a + name)) == ReadText(Path(b + name))) << a << " " << b << name;
  }
};

TEST_F(TracesTest, ARingOfTwo) {
  const std::vector<std::string> keys = {"sequence_parallel_size=2",
                                         "sequence_parallel_mode=zigzag-ring"};
  auto traced = keys;
  traced.insert(traced.end(), {"trace=2-3", "output_dir=traced"});
  const CommandResult run = Train(2, traced);
  ASSERT_THAT(run, Succeeds());
  EXPECT_THAT(run.err, HasSubstr("trace   traced/trace-2-3.json: opens in Perfetto"));
  ExpectWhole("traced/trace-2-3.json", 2, run);
  auto plain = keys;
  plain.push_back("output_dir=plain");
  ASSERT_THAT(Train(2, plain), Succeeds());
  EXPECT_FALSE(std::filesystem::exists(Path("plain/trace-2-3.json")));
  ExpectSameWeights("traced", "plain");
}

TEST_F(TracesTest, HeadsOverTwoOfFour) {
  const CommandResult run = Train(4, {"sequence_parallel_size=2", "sequence_parallel_mode=ulysses",
                                      "trace=2-3", "zero_stage=3", "output_dir=traced"});
  ASSERT_THAT(run, Succeeds());
  const json trace = ReadJson(Path("traced/trace-2-3.json"));
  Rows(trace);
  EXPECT_EQ(trace.at("otherData").at("run").at("dp"), 2);
  ASSERT_THAT(Train(4, {"sequence_parallel_size=2", "sequence_parallel_mode=ulysses",
                        "zero_stage=3", "output_dir=plain"}),
              Succeeds());
  ExpectSameWeights("traced", "plain");
}

TEST_F(TracesTest, HeadsOverFour) {
  const CommandResult run = Train(4, {"sequence_parallel_size=4", "sequence_parallel_mode=usp",
                                      "trace=2-3", "output_dir=traced"});
  ASSERT_THAT(run, Succeeds());
  ExpectWhole("traced/trace-2-3.json", 4, run);
}

// Each step of a rank has about two forwards; a busy machine delays a rank by less than the sleeps.
TEST_F(TracesTest, ExplainNamesTheSlowRank) {
  for (const std::string slow : {"0", "1"}) {
    const CommandResult run =
        Train(2, {"sequence_parallel_size=2", "trace=2-3", "output_dir=slow" + slow}, slow, "0.4");
    ASSERT_THAT(run, Succeeds());
    const CommandResult explained = Run({"explain", "slow" + slow + "/trace-2-3.json"});
    ASSERT_THAT(explained, Succeeds());
    const std::string other = slow == "0" ? "1" : "0";
    EXPECT_THAT(explained.out,
                AllOf(HasSubstr("Rank " + slow + " is late: rank " + other + " waits "),
                      HasSubstr("rank " + slow + " is late, in forward: rank " + other),
                      HasSubstr("forward (")));
    const std::vector<double> waiting = Row(explained.out, "waiting", 1),
                              forward = Row(explained.out, "forward", 1);
    ASSERT_EQ(waiting.size(), 2) << explained.out;
    ASSERT_EQ(forward.size(), 2) << explained.out;
    // The sleep counts as the slow rank's forward, and as the other rank's waiting.
    EXPECT_GE(forward[std::stoi(slow)], 0.4);
    EXPECT_GE(waiting[std::stoi(other)], 0.3);
    EXPECT_GT(waiting[std::stoi(other)], waiting[std::stoi(slow)]);
  }
}

// One rank may delay another through a third: the slow rank delays its sp group, and that group
// delays the ranks with which it reduces gradients.
TEST_F(TracesTest, ExplainNamesTheSlowRankOfFour) {
  ASSERT_THAT(Train(4, {"sequence_parallel_size=2", "trace=2-3", "output_dir=slow"}, "3", "0.4"),
              Succeeds());
  const CommandResult explained = Run({"explain", "slow/trace-2-3.json"});
  ASSERT_THAT(explained, Succeeds());
  const size_t first = explained.out.find(" is late: ");
  ASSERT_NE(first, std::string::npos) << explained.out;
  EXPECT_EQ(explained.out.substr(first - 6, 6), "Rank 3") << explained.out;
}

TEST_F(TracesTest, MissingSteps) {
  for (const std::string wrong : {"0", "3-2", "3..5", "all", "-1"}) {
    EXPECT_THAT(
        Run({"train", "config.yaml", "trace=" + wrong}),
        FailsWith(2, HasSubstr("trace: expected a step (4) or steps (3-5), from 1 on, got '" +
                               wrong + "'")));
  }
  const CommandResult beyond = Run({"train", "config.yaml", "trace=9-12"});
  EXPECT_THAT(beyond, Succeeds());
  EXPECT_THAT(beyond.err, HasSubstr("trace: 9-12: nothing is traced; the run makes steps 1 to 4"));
  // The run ends before the trace would: the trace has the steps that were made.
  EXPECT_THAT(Run({"train", "config.yaml", "trace=4-7"}), Succeeds());
  EXPECT_TRUE(std::filesystem::exists(Path("out/trace-4-4.json")));
  const CommandResult explained = Run({"explain", "out/trace-4-4.json"});
  ASSERT_THAT(explained, Succeeds());
  EXPECT_THAT(explained.out,
              AllOf(HasSubstr("steps 4 to 4 of 1 rank (dp 1 x sp 1)"), Not(HasSubstr("late: "))));
}

TEST_F(TracesTest, ExplainRefusesOtherFiles) {
  Write("other.json", "{\"traceEvents\":[{\"ph\":\"X\"}]}");
  Write("half.json", "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"X\",\"na");
  for (const std::string name : {"other.json", "half.json", "config.yaml"}) {
    EXPECT_THAT(Run({"explain", name}),
                FailsWith(2, HasSubstr(name + " is not a trace of Moonring")));
  }
  EXPECT_THAT(Run({"explain", "none.json"}), FailsWith(2, HasSubstr("none.json")));
  EXPECT_THAT(Run({"explain"}), FailsWith(2, HasSubstr("usage: moonring explain TRACE.json")));
}

// The time components in the log add up to the times in the ranks' lines, and start at 0 when a run
// resumes.
TEST_F(TracesTest, TheLogSaysWhereTheTimeWent) {
  ASSERT_THAT(Run({"-n", "2", "train", "config.yaml", "sequence_parallel_size=2", "max_steps=3",
                   "eval_strategy=steps", "eval_steps=2", "val_size=2", "save_steps=2"}),
              Succeeds());
  const auto lines = [&] {
    std::vector<json> steps;
    for (const json& line : ReadJsonLines(Path("out/trainer_log.jsonl"))) {
      if (line.contains("loss")) steps.push_back(line);
    }
    return steps;
  };
  std::vector<json> log = lines(), ranks = ReadJsonLines(Path("out/ranks.jsonl"));
  ASSERT_EQ(log.size(), 3);
  ASSERT_EQ(ranks.size(), 3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(ranks[step].at("step"), step + 1);
    double all = 0, of_ranks = 0;
    for (const char* part : {"data", "forward", "backward", "communication", "optimizer",
                             "rollouts", "evaluation", "saving", "other"}) {
      const double seconds = log[step].at(std::string("time/") + part);
      EXPECT_GE(seconds, 0) << part;
      all += seconds;
    }
    ASSERT_EQ(ranks[step].at("ranks").size(), 2);
    for (const json& rank : ranks[step].at("ranks")) {
      EXPECT_GT(rank.at("busy").get<double>(), 0);
      EXPECT_GT(rank.at("waiting").get<double>(), 0);
      of_ranks += rank.at("busy").get<double>() + rank.at("waiting").get<double>();
    }
    EXPECT_NEAR(all, of_ranks / 2, 1e-4 * all);
    for (const char* part : {"forward", "backward", "optimizer", "communication"})
      EXPECT_GT(log[step].at(std::string("time/") + part).get<double>(), 0) << part;
  }
  // After step 2 the run evaluated and saved: the next line has both times.
  EXPECT_EQ(log[1].at("time/evaluation"), 0);
  EXPECT_GT(log[2].at("time/evaluation").get<double>(), 0);
  EXPECT_GT(log[2].at("time/saving").get<double>(), 0);

  std::filesystem::remove_all(Path("out/checkpoint-3"));
  ASSERT_THAT(Run({"-n", "2", "train", "config.yaml", "sequence_parallel_size=2", "max_steps=3",
                   "eval_strategy=steps", "eval_steps=2", "val_size=2", "save_steps=2",
                   "resume_from_checkpoint=true"}),
              Succeeds());
  ranks = ReadJsonLines(Path("out/ranks.jsonl"));
  ASSERT_EQ(ranks.size(), 3);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(ranks[step].at("step"), step + 1);
  EXPECT_EQ(lines().size(), 3);
  EXPECT_EQ(lines()[2].at("time/evaluation"), 0);
}

}  // namespace
}  // namespace moonring::testing
