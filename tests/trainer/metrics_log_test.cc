#include "trainer/reports/metrics_log.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/reports/resources.h"

namespace moonring::trainer {
namespace {

using nlohmann::json;

std::string LogFolder(const std::string& name) {
  const std::string folder = std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
  mkdir(folder.c_str(), 0777);
  return folder;
}

std::string Contents(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<json> Lines(const std::string& folder) {
  std::vector<json> lines;
  std::istringstream text(Contents(folder + "/trainer_log.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(ClockTimeTest, AsPythonsTimedelta) {
  EXPECT_EQ(ClockTime(0.9), "0:00:00");
  EXPECT_EQ(ClockTime(65.0), "0:01:05");
  EXPECT_EQ(ClockTime(36005.0), "10:00:05");
  EXPECT_EQ(ClockTime(86400.0), "1 day, 0:00:00");
  EXPECT_EQ(ClockTime(3 * 86400.0 + 7), "3 days, 0:00:07");
  EXPECT_EQ(ClockTime(std::nan("")), "0:00:00");
}

TEST(MetricsLogTest, WritesALineAStep) {
  const std::string folder = LogFolder("lines");
  absl::Time now = absl::UnixEpoch();
  const auto log = MetricsLog::Create({.output_dir = folder,
                                       .total_steps = 4,
                                       .num_train_epochs = 2.0,
                                       .clock = [&] { return now; }})
                       .value();
  now += absl::Seconds(30);
  ASSERT_TRUE(log->Write({.step = 1,
                          .epoch = 0.5,
                          .loss = 1.0 / 3.0,
                          .learning_rate = 1e-5,
                          .grad_norm = 2.5,
                          .tokens = 3000})
                  .ok());
  // The file is read before the log is closed: it has the line already, with names in
  // LLaMA-Factory's order.
  const std::string first = Contents(folder + "/trainer_log.jsonl");
  EXPECT_TRUE(absl::StartsWith(first,
                               "{\"current_steps\":1,\"total_steps\":4,\"loss\":0.3333333333333333,"
                               "\"lr\":1e-05,\"epoch\":0.5,\"percentage\":25.0,"
                               "\"elapsed_time\":\"0:00:30\",\"remaining_time\":\"0:01:30\","
                               "\"elapsed_seconds\":30.0,\"grad_"
                               "norm\":2.5,\"tokens\":3000,\"tokens_per_second\":100.0,"
                               "\"peak_memory_bytes\":"))
      << first;
  now += absl::Seconds(10);
  ASSERT_TRUE(log->Write({.step = 2,
                          .epoch = 1.0,
                          .loss = std::nan(""),
                          .tokens = 5000,
                          .more = {{"rewards/margins", 0.25}}})
                  .ok());
  const auto lines = Lines(folder);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_EQ(lines[1]["tokens_per_second"], 200.0);
  EXPECT_EQ(lines[1]["rewards/margins"], 0.25);
  EXPECT_FALSE(lines[1].contains("lr"));
  const auto series = log->Series("loss");
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0], (std::pair{1.0, 1.0 / 3.0}));
  EXPECT_TRUE(std::isnan(series[1].second));
}

// The device computes at its peak rate for 40 of the 100 seconds before the first line, and for 30
// of the 50 before the second.
TEST(MetricsLogTest, LogsTheShareOfThePeak) {
  const std::string folder = LogFolder("mfu");
  absl::Time now = absl::UnixEpoch();
  const auto log =
      MetricsLog::Create({.output_dir = folder, .total_steps = 4, .clock = [&] { return now; }})
          .value();
  now += absl::Seconds(100);
  StepRecord record{.step = 1, .epoch = 0.5, .tokens = 3000};
  record.seconds_at_peak = 40.0;
  record.causal_seconds_at_peak = 30.0;
  ASSERT_TRUE(log->Write(record).ok());
  EXPECT_EQ(Summary(record, log->rates()),
            "epoch 0.50  30.00 tokens/s  mfu 40.0 % (causal 30.0 %)");
  now += absl::Seconds(50);
  record.step = 2;
  record.seconds_at_peak = 70.0;
  record.causal_seconds_at_peak = 45.0;
  ASSERT_TRUE(log->Write(record).ok());
  now += absl::Seconds(50);
  ASSERT_TRUE(log->Write({.step = 3, .epoch = 0.5, .tokens = 1003000}).ok());
  EXPECT_EQ(Summary({.step = 3, .epoch = 0.5}, log->rates()), "epoch 0.50  20000 tokens/s");
  const auto lines = Lines(folder);
  EXPECT_EQ(lines[0]["mfu"], 0.4);
  EXPECT_EQ(lines[0]["mfu_causal"], 0.3);
  EXPECT_EQ(lines[1]["mfu"], 0.6);
  EXPECT_EQ(lines[1]["mfu_causal"], 0.3);
  EXPECT_FALSE(lines[2].contains("mfu"));
  EXPECT_TRUE(log->Series("mfu").empty());  // the file's alone, as tokens_per_second
}

TEST(MetricsLogTest, FinishWritesTheResults) {
  const std::string folder = LogFolder("finish");
  absl::Time now = absl::UnixEpoch();
  const auto log = MetricsLog::Create({.output_dir = folder,
                                       .total_steps = 2,
                                       .num_train_epochs = 1.0,
                                       .eval_steps = 7,
                                       .save_steps = 9,
                                       .flops_per_token = 6.0,
                                       .clock = [&] { return now; }})
                       .value();
  now += absl::Seconds(8);
  ASSERT_TRUE(
      log->Write({.step = 2, .epoch = 1.0, .loss = 2.0, .learning_rate = 1e-4, .tokens = 10}).ok());
  ASSERT_TRUE(log->Finish(2.5, 16).ok());
  EXPECT_EQ(log->train_results().at("train_runtime"), 8.0);
  // The evaluation after the training comes before the last line.
  now += absl::Seconds(3);
  ASSERT_TRUE(log->Write({.step = 2, .tokens = 10, .more = {{"eval_loss", 1.5}}}).ok());
  ASSERT_TRUE(log->End({{"peak_memory_bytes", 7.0}}).ok());
  const json results = json::parse(Contents(folder + "/train_results.json"));
  EXPECT_EQ(results,
            json::parse(R"({"epoch":1.0,"total_flos":60.0,"train_loss":2.5,"train_runtime":8.0,)"
                        R"("train_samples_per_second":2.0,"train_steps_per_second":0.25})"));
  EXPECT_EQ(json::parse(Contents(folder + "/all_results.json")), results);
  const json state = json::parse(Contents(folder + "/trainer_state.json"));
  EXPECT_EQ(state["global_step"], 2);
  EXPECT_EQ(state["max_steps"], 2);
  EXPECT_EQ(state["eval_steps"], 7);
  EXPECT_EQ(state["save_steps"], 9);
  EXPECT_EQ(state["total_flos"], 60.0);
  ASSERT_EQ(state["log_history"].size(), 2u);
  EXPECT_EQ(state["log_history"][0],
            json::parse(R"({"step":2,"epoch":1.0,"loss":2.0,"learning_rate":1e-4})"));
  EXPECT_EQ(state["log_history"][1]["train_loss"], 2.5);
  EXPECT_EQ(Lines(folder)[1]["eval_loss"], 1.5);
  EXPECT_EQ(Lines(folder).back(),
            json::parse(R"({"current_steps":2,"total_steps":2,"epoch":0.0,"percentage":100.0,)"
                        R"("elapsed_time":"0:00:08","remaining_time":"0:00:00",)"
                        R"("peak_memory_bytes":7})"));
}

// An evaluation and a save take time between two lines, which is no time of steps.
TEST(MetricsLogTest, RatesArePerSecondInSteps) {
  const std::string folder = LogFolder("pauses");
  absl::Time now = absl::UnixEpoch();
  const auto log =
      MetricsLog::Create({.output_dir = folder, .total_steps = 4, .clock = [&] { return now; }})
          .value();
  const auto write = [&](int64_t step, double step_seconds) {
    now += absl::Seconds(10);
    return log->Write({.step = step, .tokens = 100 * step, .step_seconds = step_seconds}).ok();
  };
  ASSERT_TRUE(write(1, 2.0) && write(2, 6.0));
  ASSERT_TRUE(write(2, 6.0));  // the line of an evaluation
  ASSERT_TRUE(write(3, 7.0));
  const auto lines = Lines(folder);
  EXPECT_EQ(lines[0]["tokens_per_second"], 50.0);
  EXPECT_EQ(lines[1]["tokens_per_second"], 25.0);
  EXPECT_FALSE(lines[2].contains("tokens_per_second"));
  EXPECT_EQ(lines[3]["tokens_per_second"], 100.0);
  EXPECT_EQ(lines[3]["elapsed_seconds"], 40.0);
}

// The last step is recorded as the end of the run even if it has no log line (as in Transformers);
// a line counts the tokens since the previous line.
TEST(MetricsLogTest, EndsAtTheLastStepLoggedOrNot) {
  const std::string folder = LogFolder("unlogged");
  absl::Time now = absl::UnixEpoch();
  const auto log = MetricsLog::Create({.output_dir = folder,
                                       .total_steps = 5,
                                       .logging_steps = 2,
                                       .flops_per_token = 6.0,
                                       .clock = [&] { return now; }})
                       .value();
  for (int64_t step = 1; step <= 5; ++step) {
    now += absl::Seconds(2);
    log->Reach({.step = step, .epoch = 0.2 * static_cast<double>(step), .tokens = 10 * step});
    if (step % 2 == 0) {
      ASSERT_TRUE(log->Write({.step = step,
                              .epoch = 0.2 * static_cast<double>(step),
                              .loss = 1.0,
                              .tokens = 10 * step})
                      .ok());
    }
  }
  EXPECT_EQ(Lines(folder).back()["tokens_per_second"], 5.0);
  ASSERT_TRUE(log->WriteState().ok());
  EXPECT_EQ(json::parse(Contents(folder + "/trainer_state.json"))["global_step"],
            5);  // what a checkpoint of step 5 has
  ASSERT_TRUE(log->Finish(1.0, 20).ok());
  const json state = json::parse(Contents(folder + "/trainer_state.json")),
             results = json::parse(Contents(folder + "/train_results.json"));
  EXPECT_EQ(state["global_step"], 5);
  EXPECT_EQ(state["epoch"], 1.0);
  EXPECT_EQ(state["num_input_tokens_seen"], 50);
  EXPECT_EQ(state["log_history"].back()["step"], 5);
  EXPECT_EQ(results["train_steps_per_second"], 0.5);
  EXPECT_EQ(results["total_flos"], 300.0);
  ASSERT_TRUE(log->End().ok());
  EXPECT_EQ(Lines(folder).back()["current_steps"], 5);
  EXPECT_EQ(Lines(folder).back()["percentage"], 100.0);
  EXPECT_EQ(Lines(folder).size(), 3u);  // steps 2 and 4, and the end
}

// The disk becomes full in the middle of a line, and has room again later.
TEST(MetricsLogTest, LinesWaitForADiskThatIsFull) {
  const std::string folder = LogFolder("full");
  const auto log = MetricsLog::Create({.output_dir = folder, .total_steps = 5}).value();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  ASSERT_TRUE(log->Write({.step = 1, .loss = 1.0}).ok());
  const rlimit full{Contents(folder + "/trainer_log.jsonl").size() + 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int64_t step = 2; step <= 3; ++step) {
    EXPECT_TRUE(absl::StrContains(log->Write({.step = step, .loss = 1.0}).message(),
                                  "full/trainer_log.jsonl: cannot write: File too large"));
  }
  EXPECT_EQ(Contents(folder + "/trainer_log.jsonl").size(), full.rlim_cur);
  EXPECT_EQ(log->Series("loss").size(), 3u);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(log->Write({.step = 4, .loss = 1.0}).ok());
  signal(SIGXFSZ, ignored);
  const auto lines = Lines(folder);
  ASSERT_EQ(lines.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lines[i]["current_steps"], i + 1);
}

// An evaluation during training is a line of the log, a file of results, and part of
// all_results.json, in any order of the writes.
TEST(MetricsLogTest, EvaluationsAndTheBestCheckpoint) {
  const std::string folder = LogFolder("evaluation");
  const auto log = MetricsLog::Create({.output_dir = folder, .total_steps = 2}).value();
  ASSERT_TRUE(log->Write({.step = 1, .epoch = 0.5, .more = {{"eval_loss", 1.5}}}).ok());
  EXPECT_FALSE(Lines(folder)[0].contains("loss"));
  EXPECT_EQ(Lines(folder)[0]["eval_loss"], 1.5);
  EXPECT_EQ(log->Series("eval_loss").size(), 1u);
  const std::string best = folder + "/checkpoint-1";
  const auto named_best = [&](const std::string& in) {
    return json::parse(Contents(in + "/trainer_state.json"))["best_model_checkpoint"];
  };
  log->SetBest({.metric = 1.5, .step = 1, .checkpoint = best});
  // A checkpoint under its temporary name is recorded with its final name; one that does not exist
  // is not recorded.
  mkdir((best + ".partial").c_str(), 0777);
  ASSERT_TRUE(log->WriteState(best + ".partial").ok());
  EXPECT_EQ(named_best(best + ".partial"), best);
  ASSERT_TRUE(log->WriteState(folder).ok());
  EXPECT_TRUE(named_best(folder).is_null());
  mkdir(best.c_str(), 0777);
  ASSERT_TRUE(log->WriteResults("eval", {{"eval_loss", 1.25}}).ok());
  ASSERT_TRUE(log->Finish(2.5, 16).ok());
  EXPECT_EQ(json::parse(Contents(folder + "/eval_results.json")),
            json::parse(R"({"eval_loss":1.25})"));
  const json all = json::parse(Contents(folder + "/all_results.json")),
             state = json::parse(Contents(folder + "/trainer_state.json"));
  EXPECT_EQ(all["eval_loss"], 1.25);
  EXPECT_EQ(all["train_loss"], 2.5);
  EXPECT_FALSE(json::parse(Contents(folder + "/train_results.json")).contains("eval_loss"));
  EXPECT_EQ(state["best_metric"], 1.5);
  EXPECT_EQ(state["best_global_step"], 1);
  EXPECT_EQ(state["best_model_checkpoint"], best);
}

// A run that was killed while writing resumes from step 2: the incomplete line and the lines after
// step 2 are removed, all others stay.
TEST(MetricsLogTest, ResumesAnEarlierLog) {
  const std::string folder = LogFolder("resume");
  {
    const auto log = MetricsLog::Create({.output_dir = folder, .total_steps = 4}).value();
    for (int64_t step = 1; step <= 3; ++step)
      ASSERT_TRUE(
          log->Write({.step = step, .loss = static_cast<double>(step), .learning_rate = 0.5}).ok());
  }
  std::ofstream(folder + "/trainer_log.jsonl", std::ios::app) << "{\"current_steps\": 4, \"lo";
  absl::Time now = absl::UnixEpoch();
  const auto log = MetricsLog::Create({.output_dir = folder,
                                       .total_steps = 4,
                                       .first_step = 2,
                                       .keep = true,
                                       .clock = [&] { return now; }})
                       .value();
  now += absl::Seconds(10);
  ASSERT_TRUE(log->Write({.step = 3, .loss = 30.0}).ok());
  const auto lines = Lines(folder);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["loss"], 2.0);
  EXPECT_EQ(lines[2]["loss"], 30.0);
  EXPECT_EQ(lines[2]["remaining_time"], "0:00:10");  // one step took 10 s, one is left
  EXPECT_EQ(log->Series("loss").size(), 3u);
  EXPECT_EQ(log->Series("learning_rate").size(), 2u);
  EXPECT_EQ(log->lines(), 3);

  // An evaluation at the end has one more line at the checkpoint's step.
  ASSERT_TRUE(log->Write({.step = 3, .more = {{"eval_loss", 1.0}}}).ok());
  const MetricsLogOptions at_three = {
      .output_dir = folder, .total_steps = 4, .first_step = 3, .keep = true};
  EXPECT_EQ(MetricsLog::Create(at_three).value()->lines(), 4);
  MetricsLogOptions three_lines = at_three;
  three_lines.first_lines = 3;
  EXPECT_EQ(MetricsLog::Create(three_lines).value()->Series("eval_loss").size(), 0u);
  EXPECT_EQ(Lines(folder).size(), 3u);

  std::ofstream(folder + "/trainer_log.jsonl") << "what is this\n";
  EXPECT_TRUE(
      absl::StrContains(MetricsLog::Create({.output_dir = folder, .keep = true}).status().message(),
                        "a line is not one of a training log: what is this"));
  EXPECT_TRUE(MetricsLog::Create({.output_dir = LogFolder("fresh"), .keep = true}).ok());
}

// The file has LLaMA-Factory's names and the history has Transformers', also after resuming.
TEST(MetricsLogTest, LogsTokens) {
  const std::string folder = LogFolder("tokens");
  absl::Time now = absl::UnixEpoch();
  const MetricsLogOptions options = {.output_dir = folder,
                                     .total_steps = 4,
                                     .tells_tokens = true,
                                     .token_rates = {{"a_rank", 2.0}, {"all", 1.0}},
                                     .clock = [&] { return now; }};
  {
    const auto log = MetricsLog::Create(options).value();
    now += absl::Seconds(3);
    ASSERT_TRUE(log->Write({.step = 1, .loss = 1.0, .tokens = 100}).ok());
  }
  EXPECT_EQ(Lines(folder)[0]["total_tokens"], 100);
  EXPECT_EQ(Lines(folder)[0]["throughput"], 33.33);
  MetricsLogOptions later = options;
  later.first_step = 1;
  later.first_tokens = 100;
  later.keep = true;
  const auto log = MetricsLog::Create(later).value();
  now += absl::Seconds(4);
  ASSERT_TRUE(log->Write({.step = 2, .loss = 1.0, .tokens = 180}).ok());
  EXPECT_EQ(Lines(folder)[1]["throughput"], 20.0);  // since it resumed
  ASSERT_TRUE(log->Finish(1.0, 8).ok());
  const json state = json::parse(Contents(folder + "/trainer_state.json")),
             results = json::parse(Contents(folder + "/train_results.json"));
  for (const int k : {0, 1, 2}) {
    const json& entry = state["log_history"][k];
    EXPECT_EQ(entry["num_input_tokens_seen"], k == 0 ? 100 : 180) << entry;
    EXPECT_FALSE(entry.contains("total_tokens") || entry.contains("throughput")) << entry;
  }
  EXPECT_EQ(results["a_rank"], 10.0);
  EXPECT_EQ(results["all"], 20.0);
}

TEST(MetricsLogTest, NamesTheFileThatFails) {
  const auto missing = MetricsLog::Create({.output_dir = "/nowhere/at/all"});
  EXPECT_TRUE(absl::StrContains(missing.status().message(),
                                "/nowhere/at/all/trainer_log.jsonl: cannot open"))
      << missing.status();
  // A device that is always full.
  auto full = LineAppender::Open("/dev/full", false);
  ASSERT_TRUE(full.ok());
  EXPECT_TRUE(absl::StrContains(full->Append("x").message(),
                                "/dev/full: cannot write: No space left on device"));
}

// In a folder that somebody else made, the log's name may be a link to any file of the user.
TEST(LineAppenderTest, DoesNotWriteThroughALink) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "links";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mine") << "keep\n";
  const std::filesystem::path link = folder / "log.jsonl";
  std::filesystem::create_symlink("mine", link);
  EXPECT_TRUE(absl::StrContains(LineAppender::Open(link.string(), true).status().message(),
                                "is a symbolic link"));
  auto log = LineAppender::Open(link.string(), false);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->Append("x").ok());
  EXPECT_FALSE(std::filesystem::is_symlink(link));
  std::string line;
  std::getline(std::ifstream(folder / "mine"), line);
  EXPECT_EQ(line, "keep");
}

TEST(ResourcesTest, PeakIsAtLeastWhatIsResident) {
  EXPECT_GT(ResidentBytes(), 1 << 20);
  const int64_t before = PeakResidentBytes();
  EXPECT_GE(before, ResidentBytes() / 2);
  std::vector<char> large(64 << 20, 1);  // touched
  EXPECT_GE(PeakResidentBytes(), before);
  EXPECT_GE(PeakResidentBytes(), 64 << 20);
  EXPECT_EQ(large.back(), 1);
}

}  // namespace
}  // namespace moonring::trainer
