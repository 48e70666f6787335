#include "tests/testing/pretend_device/timeline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

namespace moonring::pretend {
namespace {

struct Waiting {
  StreamKey stream;
  int64_t time;
  const char* begin;
  size_t bytes;
  std::function<void()> done;
};

struct SharedClocks {
  std::mutex mutex;
  std::map<StreamKey, Clock> streams;
  Clock host;  // work that the host has waited for: whatever it starts from now on comes after it
  std::vector<Waiting> waiting;
};

SharedClocks& AllClocks() {
  static auto* const shared = new SharedClocks;
  return *shared;
}

int64_t At(const Clock& clock, StreamKey stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

void Join(Clock& into, const Clock& other) {
  for (const auto& [stream, time] : other) {
    int64_t& mine = into[stream];
    mine = std::max(mine, time);
  }
}

// Removes and returns the waiting callbacks for which `over` is true. The caller holds the lock,
// and runs the callbacks after releasing it.
template <typename Over>
std::vector<Waiting> Take(SharedClocks& all, const Over& over) {
  const auto still = std::stable_partition(all.waiting.begin(), all.waiting.end(),
                                           [&](const Waiting& one) { return !over(one); });
  std::vector<Waiting> reached(std::make_move_iterator(still),
                               std::make_move_iterator(all.waiting.end()));
  all.waiting.erase(still, all.waiting.end());
  return reached;
}

void HostJoins(const std::function<Clock(SharedClocks&)>& clock) {
  std::vector<Waiting> reached;
  {
    const std::lock_guard<std::mutex> lock(AllClocks().mutex);
    Join(AllClocks().host, clock(AllClocks()));
    const Clock& host = AllClocks().host;
    reached =
        Take(AllClocks(), [&](const Waiting& one) { return At(host, one.stream) >= one.time; });
  }
  for (const Waiting& one : reached) one.done();
}

using Part = std::map<int64_t, LastUse>::iterator;

// Returns the section that begins at this byte; splits a section if necessary.
Part Split(Uses& uses, int64_t at) {
  const Part part = std::prev(uses.from.upper_bound(at));
  return part->first == at ? part : uses.from.emplace(at, part->second).first;
}

// Merges sections of [first, end), and their neighbors, that have the same record.
void JoinEquals(Uses& uses, Part first, Part end) {
  if (first != uses.from.begin()) --first;
  if (end != uses.from.end()) ++end;
  for (Part next = std::next(first); next != end;) {
    if (next->second == first->second) {
      next = uses.from.erase(next);
    } else {
      first = next++;
    }
  }
}

}  // namespace

StreamKey KeyOf(const c10::Stream& stream) {
  return stream.device_index() * 1'000'000 + static_cast<StreamKey>(stream.id());
}

void Launch(const c10::Stream& stream, const std::vector<Access>& accesses, const char* work) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  const StreamKey key = KeyOf(stream);
  Clock& clock = AllClocks().streams[key];
  Join(clock, AllClocks().host);
  const int64_t now = ++clock[key];
  const auto after = [&](StreamKey other, int64_t time) {
    return other == key || At(clock, other) >= time;
  };
  for (const Access& access : accesses) {
    for (auto part = Split(*access.uses, access.begin), end = Split(*access.uses, access.end);
         part != end; ++part) {
      const LastUse& last = part->second;
      TORCH_CHECK(last.written_at == 0 || after(last.written_on, last.written_at), work,
                  " on stream ", key, " uses what stream ", last.written_on,
                  " writes, and does not wait for it: an event is missing (pretend device)");
      if (!access.writes) continue;
      for (const auto& [reader, time] : last.read_at) {
        TORCH_CHECK(after(reader, time), work, " on stream ", key, " writes what stream ", reader,
                    " reads, and does not wait for it: an event is missing (pretend device)");
      }
    }
  }
  for (const Access& access : accesses) {
    const auto first = Split(*access.uses, access.begin), end = Split(*access.uses, access.end);
    for (auto part = first; part != end; ++part) {
      if (access.writes)
        part->second = {.written_on = key, .written_at = now};  // after all who read
      part->second.read_at[key] = now;
    }
    JoinEquals(*access.uses, first, end);
  }
}

void CheckFree(const Uses& uses, const char* what) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  Clock& clock = AllClocks().streams[uses.allocated_on];
  for (const auto& [begin, last] : uses.from) {
    for (const auto& [stream, time] : last.read_at) {  // who writes has read
      if (stream == uses.allocated_on || uses.recorded.contains(stream)) continue;
      if (std::max(At(clock, stream), At(AllClocks().host, stream)) >= time) continue;
      std::fprintf(stderr,
                   "pretend device: %s of stream %lld is freed while stream %lld may use it: "
                   "record_stream or an event is missing\n",
                   what, static_cast<long long>(uses.allocated_on), static_cast<long long>(stream));
      std::abort();
    }
  }
}

Clock Record(const c10::Stream& stream) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  return AllClocks().streams[KeyOf(stream)];
}

void WaitForEvent(const c10::Stream& stream, const Clock& event) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  Join(AllClocks().streams[KeyOf(stream)], event);
}

bool HostHasWaited(const c10::Stream& stream) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  const StreamKey key = KeyOf(stream);
  return At(AllClocks().host, key) >= At(AllClocks().streams[key], key);
}

void HostWaits(const Clock& event) {
  HostJoins([&](SharedClocks&) { return event; });
}

void HostWaits(const c10::Stream& stream) {
  HostJoins([&](SharedClocks& all) { return all.streams[KeyOf(stream)]; });
}

void HostWaitsForAll() {
  HostJoins([](SharedClocks& all) {
    Clock latest;
    for (const auto& [key, clock] : all.streams) Join(latest, clock);
    return latest;
  });
}

void WhenReached(const c10::Stream& stream, const void* begin, size_t bytes,
                 std::function<void()> done) {
  const std::lock_guard<std::mutex> lock(AllClocks().mutex);
  const StreamKey key = KeyOf(stream);
  const int64_t time = At(AllClocks().streams[key], key);
  AllClocks().waiting.push_back(
      {key, time, static_cast<const char*>(begin), bytes, std::move(done)});
}

void Arrive(const c10::Stream& stream, const void* begin, size_t bytes, const char* work) {
  const auto* const from = static_cast<const char*>(begin);
  std::vector<Waiting> arrived;
  {
    const std::lock_guard<std::mutex> lock(AllClocks().mutex);
    const StreamKey key = KeyOf(stream);
    const Clock& clock = AllClocks().streams[key];
    arrived = Take(AllClocks(), [&](const Waiting& one) {
      if (from >= one.begin + one.bytes || one.begin >= from + bytes) return false;
      TORCH_CHECK(one.stream == key || At(clock, one.stream) >= one.time, work, " on stream ", key,
                  " uses memory of the host that stream ", one.stream,
                  " is copying, and does not wait for it: an event is missing (pretend device)");
      return true;
    });
  }
  for (const Waiting& one : arrived) one.done();
}

}  // namespace moonring::pretend
