// report.html: the page that a run writes, and the one that `moonring report` writes, agree with
// the run's own files.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kHeads = 4;  // of the small model

class ReportPageTest : public Workplace {
 protected:
  ReportPageTest() { WriteModel("model"); }

  // Returns the text of the page's element that contains its data.
  static std::string Island(const std::string& page) {
    const std::string begin = R"(<script type="application/json" id="runs">)";
    const size_t from = page.find(begin) + begin.size();
    EXPECT_EQ(page.find(begin, from), std::string::npos);
    return page.substr(from, page.find("</script>", from) - from);
  }
  json Data(const std::string& path) const { return json::parse(Island(ReadText(Path(path)))); }

  // Checks that each number of each line of trainer_log.jsonl is a point of its curve, and that
  // curves have no other points.
  void ExpectCurvesOf(const json& run, const std::vector<json>& lines) {
    const std::vector<std::string> no_curves = {"current_steps",   "total_steps",  "epoch",
                                                "percentage",      "elapsed_time", "remaining_time",
                                                "elapsed_seconds", "tokens"};
    std::map<std::string, std::map<int, double>> wanted, found;
    for (const json& line : lines) {
      for (const auto& [name, value] : line.items()) {
        const bool listed = std::find(no_curves.begin(), no_curves.end(), name) != no_curves.end();
        const bool counts =
            line.contains("lr") || name.rfind("eval_", 0) == 0 || name == "peak_memory_bytes";
        if (!listed && counts) wanted[name][line.at("current_steps")] = value.get<double>();
      }
    }
    for (const auto& [name, curve] : run.at("curves").items()) {
      ASSERT_EQ(curve.at("x").size(), curve.at("y").size()) << name;
      EXPECT_EQ(curve.at("points"), curve.at("x").size()) << name;
      for (size_t i = 0; i < curve.at("x").size(); ++i)
        found[name][curve.at("x")[i].get<int>()] = curve.at("y")[i].get<double>();
    }
    EXPECT_EQ(found, wanted);
  }

  // Checks that the spans of the ranks cover each token of each document once, and that the ranks'
  // work adds up to all causal pairs.
  void ExpectLayout(const json& micro, int contexts) {
    ASSERT_EQ(micro.at("contexts"), contexts);
    ASSERT_EQ(micro.at("spans").size(), contexts);
    std::vector<std::vector<int>> covered;
    double pairs = 0;
    int64_t total = 0;
    for (const int64_t length : micro.at("lengths")) {
      covered.emplace_back(length, 0);
      pairs += 0.5 * static_cast<double>(length * (length + 1));
      total += length;
    }
    for (const json& place : micro.at("spans")) {
      for (size_t i = 0; i < place.size(); i += 3) {
        std::vector<int>& document = covered.at(place[i].get<size_t>() - 1);
        for (int64_t t = place[i + 1]; t < place[i + 2]; ++t) ++document.at(t);
      }
    }
    for (const std::vector<int>& document : covered) EXPECT_THAT(document, Each(1));
    int64_t tokens = 0;
    double area = 0;
    for (const int64_t each : micro.at("tokens")) tokens += each;
    for (const double each : micro.at("area")) area += each;
    EXPECT_EQ(tokens, total);
    EXPECT_DOUBLE_EQ(area, kHeads * pairs);
  }

  static const json* Setting(const json& run, const std::string& key) {
    for (const json& each : run.at("settings")) {
      if (each.at("key") == key) return &each;
    }
    return nullptr;
  }
};

TEST_F(ReportPageTest, ARunKeepsItUp) {
  WriteConfig(
      "max_steps: 4\nval_size: 2\neval_strategy: steps\neval_steps: 2\nmemory_report: true\n"
      "sequence_parallel_size: 2\nlearning_rate: 1.0e-3\nsample_prompt: who?");
  ASSERT_THAT(Run({"-n", "4", "train", "config.yaml"}), Succeeds());
  const std::vector<json> lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
  const json data = Data("out/report.html");
  ASSERT_EQ(data.at("runs").size(), 1);
  const json& run = data.at("runs")[0];
  ExpectCurvesOf(run, lines);
  EXPECT_TRUE(run.at("curves").contains("memory/weights_bytes"));
  EXPECT_EQ(run.at("standing").at("step"), 4);
  EXPECT_EQ(run.at("standing").at("finished"), true);
  EXPECT_EQ(run.at("data"), ReadJson(Path("out/data_report.json")));
  EXPECT_EQ(run.at("memory"), ReadJson(Path("out/memory_report.json")));
  EXPECT_EQ(run.at("results"), ReadJson(Path("out/all_results.json")));
  EXPECT_EQ(run.at("status").at("word"), "finished");

  ASSERT_NE(Setting(run, "learning_rate"), nullptr);
  EXPECT_EQ(*Setting(run, "learning_rate"),
            (json{{"key", "learning_rate"},
                  {"value", "0.001"},
                  {"default", "5e-05"},
                  {"changed", true},
                  {"section", Setting(run, "learning_rate")->at("section")}}));
  EXPECT_EQ(Setting(run, "seed")->at("changed"), false);

  // Layouts of steps 1 to 3; a step's examples are distributed over the two sp groups.
  ASSERT_EQ(run.at("layouts").size(), 3);
  for (int step = 1; step <= 3; ++step) {
    const json& record = run.at("layouts")[step - 1];
    EXPECT_EQ(record.at("step"), step);
    EXPECT_EQ(record.at("layers"), 2);
    ASSERT_EQ(record.at("groups").size(), 2);
    for (const json& group : record.at("groups")) {
      for (const json& micro : group.at("micro_batches")) ExpectLayout(micro, 2);
    }
  }
  // The model's answers before and after the training.
  ASSERT_EQ(run.at("samples").size(), 1);
  const json& rows = run.at("samples")[0].at("rows");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].at("when"), "before");
  EXPECT_EQ(rows[1].at("when"), "after");
  EXPECT_EQ(rows[1].at("prompt"), "who?");

  // `moonring report` gets the same data from the files; for a killed run, up to its last complete
  // line.
  ASSERT_THAT(Run({"report", "out", "out=again.html"}), Succeeds());
  EXPECT_EQ(Data("again.html").at("runs"), data.at("runs"));
  std::string log = ReadText(Path("out/trainer_log.jsonl"));
  log.resize(log.rfind("{\"current_steps\":4,"));
  Write("out/trainer_log.jsonl", log + "{\"current_steps\":4,\"total_st");
  json state = ReadJson(Path("out/run_state.json"));
  state["state"] = "running";
  Write("out/run_state.json", state.dump());
  ASSERT_THAT(Run({"report", "out"}), Succeeds());
  const json killed = Data("out/report.html").at("runs")[0];
  EXPECT_EQ(killed.at("standing").at("step"), lines[lines.size() - 2].at("current_steps"));
  EXPECT_EQ(killed.at("status").at("word"), "killed");
}

// With report_html: false neither the page nor the files that exist only for it are written.
TEST_F(ReportPageTest, ReportHtmlFalseLeavesNothing) {
  WriteConfig("max_steps: 1\nreport_html: false");
  ASSERT_THAT(Run({"train", "config.yaml"}), Succeeds());
  EXPECT_FALSE(fs::exists(Path("out/report.html")));
  EXPECT_FALSE(fs::exists(Path("out/layouts.jsonl")));
}

// If the page cannot be written, this is reported once, and the run continues.
TEST_F(ReportPageTest, AFullDiskEndsNoRun) {
  WriteConfig("max_steps: 3\nval_size: 2\neval_strategy: steps\neval_steps: 1\nsave_steps: 1");
  ASSERT_THAT(Run({"train", "config.yaml"}), Succeeds());
  for (const std::string name : {"report.html", "layouts.jsonl"}) {
    fs::remove(Path("out/" + name));
    fs::create_symlink("/dev/full", Path("out/" + name));
    const CommandResult result =
        Run({"train", "config.yaml", "resume_from_checkpoint=out/checkpoint-1"});
    ASSERT_THAT(result, Succeeds());
    const size_t said = result.err.find(name + ": ");
    ASSERT_NE(said, std::string::npos) << result.err;
    EXPECT_THAT(result.err.substr(said), HasSubstr("No space left on device"));
    EXPECT_EQ(result.err.find("\n" + name + ": ", said + 1), std::string::npos) << result.err;
    EXPECT_EQ(ReadJson(Path("out/trainer_state.json")).at("global_step"), 3);
  }
}

constexpr char kLine[] =
    R"({"current_steps":%,"total_steps":9,"loss":0.5,"lr":0.1,"epoch":1.0,"tokens":7})";

std::string Lines(int count) {
  std::string text;
  for (int step = 1; step <= count; ++step) {
    std::string line = kLine;
    text += line.replace(line.find('%'), 1, std::to_string(step)) + "\n";
  }
  return text;
}

// Text from a model or a file is escaped, so that it cannot end an HTML element.
TEST_F(ReportPageTest, TextEndsNoElement) {
  const std::string evil = R"x(</script><img src=x onerror="alert(1)"><!--<script>)x";
  fs::create_directories(Path("<b>&\"run/completions"));
  const std::string run = "<b>&\"run";
  Write(run + "/trainer_log.jsonl", Lines(2));
  Write(run + "/training_args.yaml", json{{"output_dir", evil}, {evil, 1}}.dump());
  Write(run + "/generated_predictions.jsonl",
        json{{"prompt", evil}, {"predict", evil}, {"label", "x"}}.dump() + "\n");
  Write(run + "/completions/00000.jsonl",
        json{{"prompt", evil}, {"completion", "\xff" + std::string(6000, 'a')}, {"step", 1}}.dump(
            -1, ' ', false, json::error_handler_t::ignore) +
            "\n");
  ASSERT_THAT(Run({"report", run, "out=page.html"}), Succeeds());
  const std::string page = ReadText(Path("page.html"));
  EXPECT_THAT(Island(page), Not(HasSubstr("<")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("<b>")),
                          HasSubstr("<title>&lt;b&gt;&amp;&quot;run - Moonring</title>")));
  const json data = Data("page.html").at("runs")[0];
  EXPECT_EQ(data.at("name"), run);
  EXPECT_EQ(data.at("samples")[1].at("rows")[0].at("predict"), evil);
  EXPECT_EQ(Setting(data, evil)->at("section"), "Others");
  const std::string longest = data.at("samples")[0].at("groups")[0].at("rows")[0].at("completion");
  EXPECT_THAT(longest, HasSubstr(" bytes more)"));
}

// The evaluation after the training is a point of its curve, also where it comes after the line
// that ends the log; the least of all evaluations counts that one and another at the same step.
TEST_F(ReportPageTest, TheLastEvaluationCounts) {
  const auto evaluation = [](int step, double loss) {
    return json{{"current_steps", step}, {"total_steps", 3}, {"eval_loss", loss}, {"tokens", 7}};
  };
  fs::create_directories(Path("run"));
  const std::string end = R"({"current_steps":3,"total_steps":3,"epoch":1.0})";
  Write("run/trainer_log.jsonl", evaluation(0, 0.9).dump() + "\n" + Lines(3) +
                                     evaluation(3, 0.25).dump() + "\n" + end + "\n" +
                                     evaluation(3, 0.5).dump() + "\n");
  ASSERT_THAT(Run({"report", "run"}), Succeeds());
  const json run = Data("run/report.html").at("runs")[0];
  const json& curve = run.at("curves").at("eval_loss");
  EXPECT_EQ(curve.at("x"), json({0, 3}));
  EXPECT_EQ(curve.at("y"), json({0.9, 0.5}));
  EXPECT_EQ(curve.at("least"), json({{"x", 3}, {"y", 0.25}}));
  EXPECT_EQ(run.at("status").at("word"), "finished");
}

TEST_F(ReportPageTest, SeveralRunsAreCompared) {
  for (const std::string run : {"a/run", "b/run", "c"}) {
    fs::create_directories(Path(run));
    Write(run + "/trainer_log.jsonl", Lines(3));
  }
  Write("a/run/training_args.yaml", "seed: 1\n");
  Write("b/run/training_args.yaml", "seed: 2\n");
  ASSERT_THAT(Run({"report", "a/run", "b/run", "c"}), Succeeds());
  const json runs = Data("report.html").at("runs");
  std::vector<std::string> names, seeds;
  for (const json& run : runs) names.push_back(run.at("name"));
  EXPECT_THAT(names, ElementsAre("a/run", "b/run", "c"));
  EXPECT_EQ(Setting(runs[0], "seed")->at("value"), "1");
  EXPECT_EQ(Setting(runs[1], "seed")->at("value"), "2");
}

TEST_F(ReportPageTest, SaysWhatIsWrong) {
  fs::create_directories(Path("run"));
  fs::create_directories(Path("empty"));
  Write("run/trainer_log.jsonl", Lines(1) + "nothing\n" + Lines(2));
  EXPECT_THAT(Run({"report"}), FailsWith(2, HasSubstr("usage: moonring report RUN...")));
  EXPECT_THAT(Run({"report", "nowhere"}), FailsWith(2, HasSubstr("nowhere: no such folder")));
  EXPECT_THAT(Run({"report", "empty"}), FailsWith(2, HasSubstr("empty: not the folder of a run")));
  EXPECT_THAT(Run({"report", "run"}),
              FailsWith(2, HasSubstr("run/trainer_log.jsonl:2:2: not valid JSON")));
  Write("run/trainer_log.jsonl", Lines(1));
  Write("run/run_state.json", R"({"state": "done"})");
  EXPECT_THAT(Run({"report", "run"}),
              FailsWith(2, HasSubstr("run/run_state.json: state is done, expected running,")));
  fs::remove(Path("run/run_state.json"));
  EXPECT_THAT(Run({"report", "run", "ouut=x"}),
              FailsWith(2, HasSubstr("unknown key 'ouut' (did you mean 'out'?)")));
  EXPECT_THAT(Run({"report", "run", "out=nowhere/x.html"}),
              FailsWith(2, HasSubstr("out: no folder 'nowhere'")));
  fs::create_directories(Path("run/data_report.json"));
  EXPECT_THAT(Run({"report", "run"}),
              FailsWith(2, HasSubstr("run/data_report.json is a folder, expected a file")));
}

// With --sandbox the command reads and writes only in its permitted folders.
TEST_F(ReportPageTest, IsConfined) {
  for (const std::string run : {"inside/run", "outside"}) {
    fs::create_directories(Path(run));
    Write(run + "/trainer_log.jsonl", Lines(1));
  }
  EXPECT_THAT(Run({"--sandbox-root", "inside", "report", "inside/run"}), Succeeds());
  EXPECT_THAT(Run({"--sandbox-root", "inside", "report", "outside"}),
              FailsWith(2, HasSubstr("outside of the roots")));
}

}  // namespace
}  // namespace moonring::testing
