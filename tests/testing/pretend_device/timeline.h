#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_

// Streams and events of the pretend device. Its kernels run at once, so order cannot go wrong in
// what they compute; what goes wrong on a GPU is found by clocks: each stream counts its work and
// knows how far into each other stream's it has waited (a vector clock: Mattern, "Virtual Time and
// Global States of Distributed Systems", 1989). Work that uses memory of another stream's work must
// come after it by an event or by a wait of the host, else it is a race and an error here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include <c10/core/Stream.h>

namespace moonring::pretend {

using StreamKey = int64_t;
using Clock = std::map<StreamKey, int64_t>;  // of each stream: how much of its work is over

StreamKey KeyOf(const c10::Stream& stream);

// The last work on some bytes.
struct LastUse {
  StreamKey written_on = 0;
  int64_t written_at = 0;  // 0: never
  Clock read_at;           // since it was written, and the writing

  bool operator==(const LastUse&) const = default;
};

// What is known of one piece of memory; belongs to its owner, and is read and changed here alone.
struct Uses {
  StreamKey allocated_on = 0;
  std::map<int64_t, LastUse> from{{0, {}}};  // of the bytes from here to the next one's
  std::map<StreamKey, bool> recorded;  // record_stream: the memory waits for these when it is freed
};

// Bytes [begin, end) of a piece. (A view's from its first element to its last: what lies between
// them counts as used.)
struct Access {
  Uses* uses;
  int64_t begin, end;
  bool writes;
};

// One piece of work begins on `stream`: throws what names `work` where it races with earlier work.
void Launch(const c10::Stream& stream, const std::vector<Access>& accesses, const char* work);
// The memory is given back: ends the process with a message where another stream may still use it,
// since whoever gets it next on its own stream would not wait. (A destructor cannot throw.)
void CheckFree(const Uses& uses, const char* what);

// An event's place in its stream.
Clock Record(const c10::Stream& stream);
void WaitForEvent(const c10::Stream& stream, const Clock& event);

// Whether the host has waited for all work that is on `stream` now.
bool HostHasWaited(const c10::Stream& stream);

// The host waits, for an event, for a stream, for all of them; what was to be done then is done.
void HostWaits(const Clock& event);
void HostWaits(const c10::Stream& stream);
void HostWaitsForAll();

// Called once the host has waited for the work that is last on `stream` now, or another stream that
// comes after it uses the host's memory from `begin` on (Arrive()).
void WhenReached(const c10::Stream& stream, const void* begin, size_t bytes,
                 std::function<void()> done);
// Work on `stream` uses this memory of the host: what other work of the device puts there, arrives.
// Throws where `stream` does not come after that work.
void Arrive(const c10::Stream& stream, const void* begin, size_t bytes, const char* work);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_
