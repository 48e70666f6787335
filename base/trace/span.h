#ifndef MOONRING_BASE_TRACE_SPAN_H_
#define MOONRING_BASE_TRACE_SPAN_H_

// A span of a trace: what was done from when to when, and numbers that say of what.

#include <array>
#include <cstdint>

namespace moonring::base {

// What the spans of one kind are called. It outlives the recorder.
struct SpanKind {
  const char* name = "";
  const char* category = "";
  const char* text = nullptr;               // the name of its text, if it has one
  std::array<const char*, 6> numbers = {};  // and of its numbers
  // Null: it is of the thread that records it, and lies within the spans around it. Else it is
  // something under way beside the threads, on rows of this name.
  const char* beside = nullptr;
  bool is_fine = false;
};

// Times are nanoseconds of the recorder's clock.
struct SpanEvent {
  const SpanKind* kind = nullptr;
  int64_t begin = 0, end = 0;
  std::array<int64_t, 6> numbers = {};
  int32_t text = -1;  // TraceRecorder::text of it; -1: none
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_SPAN_H_
