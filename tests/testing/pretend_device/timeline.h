#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_

// Streams and events of the pretend device. Its kernels run immediately, so a wrong order cannot
// change results; it is detected by vector clocks instead (Mattern, "Virtual Time and Global States
// of Distributed Systems", 1989). Each stream counts its work, and knows up to which count of each
// other stream it has waited. Work on memory that another stream's work has accessed must be
// ordered after that work by an event or by a wait of the host. Otherwise it is a race, which is an
// error.

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

// The last accesses to a range of bytes.
struct LastUse {
  StreamKey written_on = 0;
  int64_t written_at = 0;  // 0: never
  Clock read_at;           // since it was written, and the writing

  bool operator==(const LastUse&) const = default;
};

// The recorded accesses to one piece of memory. The owner of the memory keeps it; only the
// functions below read and change it.
struct Uses {
  StreamKey allocated_on = 0;
  std::map<int64_t, LastUse> from{{0, {}}};  // of the bytes from here to the next one's
  std::map<StreamKey, bool> recorded;  // record_stream: the memory waits for these when it is freed
};

// Bytes [begin, end) of a piece of memory. A view's bytes are those from its first element to its
// last; bytes in between count as accessed.
struct Access {
  Uses* uses;
  int64_t begin, end;
  bool writes;
};

// Begins a piece of work on `stream`. Throws an error that names `work` if it races with earlier
// work.
void Launch(const c10::Stream& stream, const std::vector<Access>& accesses, const char* work);
// Checks that memory may be freed. Ends the process with a message if another stream may still use
// it, because the next owner of the memory would not wait. (It is called in a destructor, which
// cannot throw.)
void CheckFree(const Uses& uses, const char* what);

// Records an event; returns the position in its stream.
Clock Record(const c10::Stream& stream);
void WaitForEvent(const c10::Stream& stream, const Clock& event);

// Returns whether the host has waited for all work that is now on `stream`.
bool HostHasWaited(const c10::Stream& stream);

// Makes the host wait for an event, for a stream, or for all streams. Runs the callbacks of
// WhenReached() for work that is now done.
void HostWaits(const Clock& event);
void HostWaits(const c10::Stream& stream);
void HostWaitsForAll();

// Registers a callback. It runs when the host has waited for the work that is currently last on
// `stream`, or when another stream that is ordered after this work uses the host memory at `begin`
// (Arrive()).
void WhenReached(const c10::Stream& stream, const void* begin, size_t bytes,
                 std::function<void()> done);
// Declares that work on `stream` uses this host memory; pending device copies into that memory are
// completed. Throws if `stream` is not ordered after these copies.
void Arrive(const c10::Stream& stream, const void* begin, size_t bytes, const char* work);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_TIMELINE_H_
