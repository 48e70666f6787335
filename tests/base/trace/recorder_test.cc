#include "base/trace/recorder.h"

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "base/threads/parallel_tasks.h"
#include "base/trace/trace_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::base {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr SpanKind kOuter = {.name = "outer", .category = "test", .numbers = {"a", "b"}};
constexpr SpanKind kInner = {.name = "in\"ner", .category = "test", .text = "who"};
constexpr SpanKind kFine = {.name = "fine", .category = "test", .is_fine = true};
constexpr SpanKind kFlight = {.name = "flight", .category = "test", .beside = "flights"};

// A clock that advances by one at each reading.
struct Counter {
  std::atomic<int64_t> time = 0;
  TraceRecorder::Options Options(int64_t most = 1000) {
    return {.most = most, .clock = [this] { return ++time; }};
  }
};

// The JSON {"traceEvents": ...} of a recorder.
json EventsOf(const TraceRecorder& recorder, int rank = 3) {
  const std::string lines =
      TraceEventsJson(recorder, rank, [](int64_t time) { return time * 1000; });
  return json::parse("[" + lines + "null]");
}

TEST(RecorderTest, ReadsNoClockAndKeepsNothingWhereItIsOff) {
  Counter counter;
  TraceRecorder recorder(counter.Options());
  { const TraceSpan span(kOuter, {1, 2}); }
  EXPECT_EQ(counter.time, 0);
  recorder.Start();
  recorder.Stop();
  { const TraceSpan span(kOuter, {1, 2}); }
  EXPECT_EQ(counter.time, 0);
  EXPECT_TRUE(recorder.Events().at(0).second.empty());
}

TEST(RecorderTest, SpansNestAndSayTheirNumbers) {
  Counter counter;
  TraceRecorder recorder(counter.Options());
  recorder.Start();
  {
    const TraceSpan outer(kOuter, {7, 8});              // 1
    const TraceSpan inner(kInner, {}, "some \"one\"");  // 2, 3
  }
  recorder.Stop();
  const auto events = recorder.Events();
  ASSERT_EQ(events.size(), 1);
  ASSERT_EQ(events[0].second.size(), 2);  // the inner span ends first
  EXPECT_EQ(events[0].second[0].begin, 2);
  EXPECT_EQ(events[0].second[0].end, 3);
  EXPECT_EQ(events[0].second[1].begin, 1);
  EXPECT_EQ(events[0].second[1].end, 4);

  json spans = json::array();
  for (const json& event : EventsOf(recorder)) {
    if (event.is_object() && event.at("ph") == "X") spans.push_back(event);
  }
  const json wanted = {{{"ph", "X"},
                        {"name", "outer"},
                        {"cat", "test"},
                        {"ts", 1.0},
                        {"dur", 3.0},
                        {"pid", 3},
                        {"tid", 0},
                        {"args", {{"a", 7}, {"b", 8}}}},
                       {{"ph", "X"},
                        {"name", "in\"ner"},
                        {"cat", "test"},
                        {"ts", 2.0},
                        {"dur", 1.0},
                        {"pid", 3},
                        {"tid", 0},
                        {"args", {{"who", "some \"one\""}}}}};
  EXPECT_EQ(spans, wanted);
}

TEST(RecorderTest, OneThreadHasOneRecorder) {
  TraceRecorder first, second;
  first.Start();
  EXPECT_THROW(second.Start(), c10::Error);
  EXPECT_EQ(CurrentTrace(), &first);
  second.Stop();  // this recorder does not record, so nothing happens
  EXPECT_EQ(CurrentTrace(), &first);
  first.Stop();
  EXPECT_EQ(CurrentTrace(), nullptr);
}

TEST(RecorderTest, ThreadsThatWorkForTheCallerAreRecorded) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  TraceRecorder recorder;
  recorder.Start();
  RunParallelTasks(std::vector<double>(64, 1.0),
                   [](int64_t task) { const TraceSpan span(kOuter, {task}); });
  recorder.Stop();
  RunParallelTasks({1.0, 1.0}, [](int64_t task) { const TraceSpan span(kOuter, {task}); });
  at::set_num_threads(before);
  std::set<int64_t> tasks;
  size_t spans = 0;
  for (const auto& [thread, events] : recorder.Events()) {
    spans += events.size();
    for (const SpanEvent& event : events) tasks.insert(event.numbers[0]);
    for (size_t i = 1; i < events.size(); ++i) EXPECT_GE(events[i].begin, events[i - 1].end);
  }
  EXPECT_EQ(spans, 64);
  EXPECT_EQ(tasks.size(), 64);
}

TEST(RecorderTest, LeavesFineSpansOutFirst) {
  Counter counter;
  TraceRecorder recorder(counter.Options(/*most=*/10));
  recorder.Start();
  for (int i = 0; i < 8; ++i) const TraceSpan fine(kFine);
  for (int i = 0; i < 7; ++i) const TraceSpan outer(kOuter);
  recorder.Stop();
  int fine = 0, outer = 0;
  const auto events = recorder.Events();
  for (const SpanEvent& event : events[0].second) ++(event.kind == &kFine ? fine : outer);
  EXPECT_EQ(fine, 5);
  EXPECT_EQ(outer, 5);
  EXPECT_EQ(recorder.left_out(), 3 + 2);
}

TEST(RecorderTest, ConcurrentSpansHaveRowsOfTheirOwn) {
  Counter counter;
  TraceRecorder recorder(counter.Options());
  recorder.Start();
  const std::vector<std::pair<int64_t, int64_t>> flights = {{1, 5}, {2, 4}, {3, 9}, {4, 6}, {5, 7}};
  for (const auto& [begin, end] : flights)
    recorder.Thread()->Add({.kind = &kFlight, .begin = begin, .end = end});
  recorder.Stop();
  std::map<int, std::string> names;
  std::map<int, double> ends;
  std::vector<int> rows;
  for (const json& event : EventsOf(recorder)) {
    if (!event.is_object()) continue;
    const int row = event.at("tid");
    if (event.at("name") == "thread_name") names[row] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("ts").get<double>(), ends[row]);
    ends[row] = event.at("ts").get<double>() + event.at("dur").get<double>();
    rows.push_back(row);
  }
  EXPECT_THAT(rows, ElementsAre(1000, 1001, 1002, 1001, 1000));
  EXPECT_EQ(names.at(1002), "flights 3");
}

TEST(RecorderTest, KindsOfScriptsAreOneForOneName) {
  TraceRecorder recorder;
  const SpanKind& a = recorder.Named("mine", "part");
  EXPECT_EQ(&a, &recorder.Named("mine", "part"));
  EXPECT_NE(&a, &recorder.Named("mine", "other"));
  EXPECT_EQ(std::string(recorder.Named("step", "step", "step").numbers[0]), "step");
  for (int i = 0; i < 100; ++i) recorder.Named(std::to_string(i), "part");
  EXPECT_EQ(std::string(a.name), "mine");
}

}  // namespace
}  // namespace moonring::base
