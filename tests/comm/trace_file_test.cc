// The trace of a run with every kind of call and with rank clocks that differ by seconds: it agrees
// with the communicator's counters, and each message that a rank sends is received by another one,
// at a later time.

#include "comm/trace_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <nlohmann/json.hpp>

#include "comm/process_groups.h"
#include "gmock/gmock.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using nlohmann::json;

constexpr int kRanks = 3;

void CallAll(Communicator& comm) {
  at::Tensor t = at::ones({100});
  ASSERT_OK(comm.AllReduceSum(t));
  ASSERT_OK(comm.AllReduceMax(t));
  ASSERT_OK(comm.Broadcast(t, 1));
  ASSERT_OK(comm.Barrier());
  ASSERT_OK(comm.AllToAll(at::ones({kRanks, 5}), {1, 1, 1}, {1, 1, 1}));
  ASSERT_OK(comm.AllGather(at::ones({comm.rank() + 1, 4}), {1, 2, 3}));
  ASSERT_OK(comm.ReduceScatterSum(at::ones({6, 4}), {1, 2, 3}));
  auto sum = comm.StartAllReduceSum(t);
  ASSERT_OK(sum);
  ASSERT_OK(sum->Wait());
  // Sends two messages to the next rank at the same time.
  const int next = (comm.rank() + 1) % kRanks, last = (comm.rank() + kRanks - 1) % kRanks;
  const at::Tensor one = at::empty({10}), two = at::empty({20});
  auto transfer =
      comm.Exchange({{at::ones({10}), next}, {at::ones({20}), next}}, {{one, last}, {two, last}});
  ASSERT_OK(transfer);
  ASSERT_OK(transfer->Wait());
}

TEST(TraceFileTest, SaysWhatTheCommunicatorCounts) {
  const moonring::testing::ScratchFolder folder;
  const std::string path = folder.path() + "/trace.json";
  std::mutex mutex;
  std::map<int, int64_t> counted;
  RunRanks(kRanks, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    CallAll(comm);  // calls before the trace starts; the numbering of calls continues
    const int64_t behind = 5'000'000'000 * comm.rank();
    base::TraceRecorder recorder(
        base::TraceRecorder::Options{.clock = [=] { return base::SteadyNanoseconds() - behind; }});
    const auto clock = [&] { return recorder.Now(); };
    const auto before = MeasureClock(comm, clock, 0);
    ASSERT_OK(before);
    const int64_t sent = comm.counters().bytes_sent;
    recorder.Start();
    CallAll(comm);
    recorder.Stop();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      counted[comm.rank()] = comm.counters().bytes_sent - sent;
    }
    const auto after = MeasureClock(comm, clock, 0);
    ASSERT_OK(after);
    const auto facts = WriteTrace(
        recorder, comm,
        {.path = path, .details = "{\"of\":\"a test\"}", .before = *before, .after = *after});
    ASSERT_OK(facts);
    EXPECT_EQ(facts->left_out, 0);
    EXPECT_GT(facts->uncertainty, 0);
  });

  const json trace = json::parse(std::ifstream(path));
  EXPECT_EQ(trace.at("otherData").at("run").at("of"), "a test");
  EXPECT_EQ(trace.at("otherData").at("ranks"), kRanks);
  const double apart = trace.at("otherData").at("clock_uncertainty_ns").get<double>() * 2e-3;
  std::map<int, int64_t> bytes;
  struct Ends {
    double sent = -1, received = -1;
    int64_t bytes_sent = 0, bytes_received = 0;
  };
  std::map<std::string, Ends> messages;
  std::map<std::string, std::vector<json>> calls;
  std::map<uint64_t, int> arrows;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "s") ++arrows[event.at("id")];
    if (event.at("ph") == "f") --arrows[event.at("id")];
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_LT(event.at("ts").get<double>(), 4e6) << "clocks are seconds apart: " << event;
    if (event.at("cat") != "transfer") continue;
    const json& args = event.at("args");
    const int rank = event.at("pid");
    const std::string name = event.at("name");
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    if (name == "receive" || name == "send") {
      const bool leaves = name == "send";
      const int peer = args.at("peer");
      Ends& ends = messages[std::to_string(leaves ? rank : peer) + " " +
                            std::to_string(leaves ? peer : rank) + " " + args.at("message").dump()];
      (leaves ? ends.sent : ends.received) = leaves ? begin : end;
      (leaves ? ends.bytes_sent : ends.bytes_received) = args.at("bytes");
    } else {
      calls[args.at("call").dump()].push_back(event);
    }
    if (name != "receive") bytes[rank] += args.at("bytes").get<int64_t>();
  }
  EXPECT_EQ(bytes, counted);
  // Messages: one for each pair of ranks in all_gather and in reduce_scatter, and two to the next
  // rank.
  EXPECT_EQ(messages.size(), 2 * kRanks * (kRanks - 1) + 2 * kRanks);
  for (const auto& [key, ends] : messages) {
    EXPECT_EQ(ends.bytes_sent, ends.bytes_received) << key;
    EXPECT_GE(ends.sent, 0) << key;
    EXPECT_GT(ends.received, ends.sent - apart) << key;
  }
  for (const auto& [id, open] : arrows) EXPECT_EQ(open, 0) << id;
  EXPECT_EQ(arrows.size(), messages.size());
  EXPECT_EQ(calls.size(), 6);  // two reductions, broadcast, barrier, all-to-all, and one that waits
  for (const auto& [call, spans] : calls) {
    ASSERT_EQ(spans.size(), kRanks) << call;
    for (const json& one : spans) {
      // In a collective, no rank finishes before all have started, except in a broadcast, which has
      // one source.
      for (const json& other : spans) {
        if (one.at("name") == "broadcast") continue;
        EXPECT_GE(one.at("ts").get<double>() + one.at("dur").get<double>(),
                  other.at("ts").get<double>() - apart)
            << one << other;
      }
    }
  }
}

TEST(TraceFileTest, AFileThatCannotBeWrittenIsRankZerosError) {
  RunRanks(2, [](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const base::TraceRecorder recorder;
    const auto facts = WriteTrace(recorder, comm, {.path = "/nowhere/at/all/trace.json"});
    if (comm.rank() == 0) {
      EXPECT_THAT(facts, StatusIs(absl::StatusCode::kNotFound,
                                  ::testing::HasSubstr("/nowhere/at/all/trace.json")));
    } else {
      ASSERT_OK(facts);
    }
    ASSERT_OK(comm.Barrier());
  });
}

}  // namespace
}  // namespace moonring::comm
