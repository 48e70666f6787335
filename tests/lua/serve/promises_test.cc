#include "lua/serve/promises.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::serve {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Clock = Promises::Clock;
using State = Promises::State;

// A service's promises with a journal, which can be killed and started again.
class PromisesTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/promises" + std::to_string(getpid());
    std::filesystem::remove(path_);
    Start({});
  }

  void Start(const std::map<std::string, int64_t>& states) {
    promises_.reset();
    journal_.reset();
    auto opened = Journal::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    journal_ = *std::move(opened);
    finished_.clear();
    promises_ = std::make_unique<Promises>(
        options_, journal_.get(), [this](const std::string& id) { finished_.push_back(id); });
    const absl::Status read = journal_->Each(
        [this](const Journal::Record& record) { EXPECT_TRUE(promises_->Read(record)); });
    ASSERT_TRUE(read.ok()) << read;
    promises_->Restore(states);
  }

  void Create(const std::string& model) {
    Accept({.route = "create_model",
            .session = "S",
            .model = model,
            .id = "S/model/" + model,
            .effect = Effect::kWeights});
  }
  void Train(const std::string& model, int64_t seq, const std::string& body = "train") {
    Accept({.route = "forward_backward",
            .body = body,
            .session = "S",
            .model = model,
            .seq = seq,
            .id = model + "/" + std::to_string(seq),
            .effect = Effect::kWeights});
  }
  void Sample(int64_t number) {
    Accept({.route = "asample",
            .body = "sample",
            .session = "S",
            .id = "S:sample:0/" + std::to_string(number),
            .effect = Effect::kSample,
            .seed = 7});
  }
  void Accept(Request request) {
    const absl::Status status = promises_->Accept(std::move(request), now_);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Takes the jobs that are ready, and answers each with its body. "!": a replay.
  std::vector<std::string> Run(size_t most = 100, const std::set<std::string>& routes = {}) {
    std::vector<std::string> ran;
    while (ran.size() < most) {
      const auto job = promises_->Next(seconds(0), routes);
      if (!job) break;
      ran.push_back(job->id + (job->replay ? "!" : ""));
      promises_->Finish(job->id, {false, "did " + job->body, "text"});
    }
    return ran;
  }

  std::string Result(const std::string& id) {
    const Promises::Answer answer = promises_->Poll(id, now_);
    if (answer.state == State::kUnknown) return "unknown";
    if (answer.state == State::kWaiting) return "waiting";
    return (answer.result.failed ? answer.result.type + ": " : "") + answer.result.body;
  }

  Promises::Options options_;
  Clock::time_point now_ = Clock::now();
  std::string path_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Promises> promises_;
  std::vector<std::string> finished_;
};

TEST_F(PromisesTest, RunInTheOrderOfTheirModel) {
  Create("M");
  Train("M", 3);
  Train("N", 2);
  EXPECT_THAT(Run(), ElementsAre("S/model/M"));
  Train("M", 1);
  EXPECT_THAT(Run(), ElementsAre("M/1"));
  Train("N", 1);
  Train("M", 2);
  EXPECT_THAT(Run(), ElementsAre("N/1", "N/2", "M/2", "M/3"));
  EXPECT_THAT(finished_, ElementsAre("S/model/M", "M/1", "N/1", "N/2", "M/2", "M/3"));
}

TEST_F(PromisesTest, RunOnceHoweverOftenTheyCome) {
  Train("M", 1, "first");
  Train("M", 1, "again");
  EXPECT_EQ(Result("M/1"), "waiting");
  EXPECT_THAT(Run(), ElementsAre("M/1"));
  Train("M", 1, "late");
  EXPECT_THAT(Run(), IsEmpty());
  EXPECT_EQ(Result("M/1"), "did first");
  EXPECT_EQ(Result("M/1"), "did first");
  EXPECT_EQ(Result("M/2"), "unknown");
}

TEST_F(PromisesTest, AreTakenByRoute) {
  Train("M", 1);
  Sample(0);
  Sample(1);
  EXPECT_THAT(Run(100, {"asample"}), ElementsAre("S:sample:0/0", "S:sample:0/1"));
  EXPECT_THAT(Run(), ElementsAre("M/1"));
}

TEST_F(PromisesTest, AFailureLetsTheNextOneRun) {
  Train("M", 1);
  Train("M", 2);
  const auto job = promises_->Next(seconds(0), {});
  promises_->Finish(job->id, {true, "no such loss", "user"});
  EXPECT_EQ(Result("M/1"), "user: no such loss");
  EXPECT_THAT(Run(), ElementsAre("M/2"));
}

TEST_F(PromisesTest, ForgetDeliveredResults) {
  Train("M", 1);
  Sample(0);
  Run();
  EXPECT_EQ(Result("M/1"), "did train");
  now_ += seconds(601);
  promises_->Tidy(now_);
  EXPECT_EQ(Result("M/1"), "unknown");
  EXPECT_EQ(Result("S:sample:0/0"), "did sample");  // not delivered before
  Train("M", 1);                                    // does nothing: it ran
  Train("M", 2);
  EXPECT_THAT(Run(), ElementsAre("M/2"));
}

TEST_F(PromisesTest, FailIfAnEarlierOneDoesNotCome) {
  Train("M", 2);
  Train("M", 3);
  promises_->Tidy(now_ + seconds(599));
  EXPECT_EQ(Result("M/2"), "waiting");
  promises_->Tidy(now_ + seconds(601));
  EXPECT_THAT(Result("M/2"), HasSubstr("user: seq_id 1 of M did not come within 600 seconds"));
  EXPECT_THAT(Result("M/3"), HasSubstr("seq_id 1 of M"));
  Train("M", 4);
  EXPECT_THAT(Run(), ElementsAre("M/4"));
  Train("M", 1);
  EXPECT_THAT(Result("M/1"), HasSubstr("user: seq_id 1 came after seq_id 4"));
}

TEST_F(PromisesTest, RunAgainAfterARestart) {
  Create("M");
  Train("M", 1, "one");
  Sample(0);
  Run();
  Train("M", 2, "two");
  EXPECT_EQ(promises_->Next(seconds(0), {})->id, "M/2");  // killed while it runs
  Train("M", 3, "three");
  Sample(1);
  Start({});
  EXPECT_EQ(Result("M/1"), "did one");
  EXPECT_EQ(Result("S:sample:0/0"), "did sample");
  EXPECT_EQ(Result("M/2"), "waiting");
  EXPECT_THAT(Run(), ElementsAre("S/model/M!", "M/1!", "M/2", "M/3"));
  EXPECT_EQ(Result("M/1"), "did one");
  EXPECT_EQ(Result("M/3"), "did three");
  EXPECT_EQ(Result("S:sample:0/1"), "waiting");  // now that somebody asks for it, it runs
  EXPECT_THAT(Run(), ElementsAre("S:sample:0/1"));
  Train("M", 4);
  EXPECT_THAT(Run(), ElementsAre("M/4"));
}

TEST_F(PromisesTest, DoNotRunAgainUpToTheStateOnDisk) {
  Create("M");
  for (int64_t seq = 1; seq <= 4; ++seq) Train("M", seq);
  Run();
  ASSERT_TRUE(promises_->Saved("M", 3).ok());
  Start({{"M", 3}});
  EXPECT_THAT(Run(), ElementsAre("M/4!"));
  EXPECT_EQ(Result("M/2"), "did train");
  Train("M", 3);
  Train("M", 5);
  EXPECT_THAT(Run(), ElementsAre("M/5"));
  Start({});  // the state was removed: all of it runs again
  EXPECT_THAT(Run(), ElementsAre("S/model/M!", "M/1!", "M/2!", "M/3!", "M/4!", "M/5!"));
}

TEST_F(PromisesTest, FailIfTheProcessEndsTooOftenWhileTheyRun) {
  Train("M", 1);
  Train("M", 2);
  for (int i = 0; i < options_.crashes; ++i) {
    EXPECT_EQ(promises_->Next(seconds(0), {})->id, "M/1");
    Start({});
  }
  EXPECT_THAT(Result("M/1"), HasSubstr("server: the service ended 10 times"));
  EXPECT_THAT(Run(), ElementsAre("M/2"));
}

TEST_F(PromisesTest, FailIfTheWeightsOfTheirModelCannotBeRestored) {
  Create("M");
  Create("N");
  Train("M", 1);
  Train("M", 2);
  Run();
  for (int crash = 0; crash < options_.crashes; ++crash) {
    Start({});
    Train("M", 3);
    while (const auto job = promises_->Next({}, {})) {
      if (job->id == "M/2") break;  // the process ends while it runs
      promises_->Finish(job->id, {});
    }
  }
  Start({});
  EXPECT_THAT(Run(), ElementsAre("S/model/N!"));  // the other model is not concerned
  EXPECT_EQ(Result("M/2"), "did train");          // results stay
  EXPECT_THAT(Result("M/3"), HasSubstr("while it ran M/2 again to restore the model's weights"));
  Train("M", 4);
  EXPECT_THAT(Result("M/4"), HasSubstr("load saved weights into a new model"));
  EXPECT_THAT(Run(), IsEmpty());
}

TEST_F(PromisesTest, ARestartThatWorksEndsTheCountOfCrashes) {
  Create("M");
  Train("M", 1);
  Run();
  for (int restart = 0; restart < 2 * options_.crashes; ++restart) {
    Start({});
    EXPECT_THAT(Run(), ElementsAre("S/model/M!", "M/1!"));
  }
}

TEST_F(PromisesTest, AnEndThatWasAskedForIsNoCrash) {
  Create("M");
  Train("M", 1);
  for (int end = 0; end < 2 * options_.crashes; ++end) {
    Start({});
    while (const auto job = promises_->Next({}, {})) {
      if (job->id == "M/1") break;
      promises_->Finish(job->id, {});
    }
    promises_->Interrupt();
  }
  Start({});
  Run();
  EXPECT_EQ(Result("M/1"), "did train");
}

TEST_F(PromisesTest, EndWithTheirSession) {
  Create("M");
  Train("M", 1);
  Train("M", 3);
  const auto running = promises_->Next(seconds(0), {});
  promises_->Drop("S");
  EXPECT_THAT(Run(), IsEmpty());
  EXPECT_EQ(Result("M/1"), "unknown");
  promises_->Finish(running->id, {false, "late", "text"});
  Start({});
  EXPECT_THAT(Run(), IsEmpty());
}

TEST_F(PromisesTest, CancelBeforeTheyBegin) {
  Sample(0);
  Sample(1);
  EXPECT_EQ(promises_->Next(seconds(0), {})->id, "S:sample:0/0");
  promises_->Cancel("S:sample:0/0");  // has begun
  promises_->Cancel("S:sample:0/1");
  EXPECT_EQ(Result("S:sample:0/0"), "waiting");
  EXPECT_THAT(Result("S:sample:0/1"), HasSubstr("user: the client cancelled"));
  EXPECT_THAT(Run(), IsEmpty());
}

TEST_F(PromisesTest, RewriteTheJournal) {
  options_.least_garbage = 0;
  Start({});
  Create("M");
  const std::string large(100000, 'x');
  for (int64_t seq = 1; seq <= 4; ++seq) Train("M", seq, large);
  Run();
  Train("M", 5, "five");
  ASSERT_TRUE(promises_->Saved("M", 3).ok());
  const int64_t before = journal_->bytes();
  ASSERT_TRUE(promises_->Compact({}).ok());
  EXPECT_LT(journal_->bytes(), before - 200000);  // three bodies
  EXPECT_EQ(Result("M/1"), "did " + large);
  EXPECT_THAT(Run(), ElementsAre("M/5"));
  EXPECT_EQ(Result("M/5"), "did five");
  Start({{"M", 3}});
  EXPECT_THAT(Run(), ElementsAre("M/4!", "M/5!"));
  EXPECT_EQ(Result("M/1"), "did " + large);
}

TEST_F(PromisesTest, WakeTheModelsThread) {
  std::string id;
  std::thread model([&] {
    const auto job = promises_->Next(seconds(60), {});
    if (job) id = job->id;
  });
  Train("M", 1);
  model.join();
  EXPECT_EQ(id, "M/1");
}

}  // namespace
}  // namespace moonring::serve
