#ifndef MOONRING_BASE_TRACE_SPAN_H_
#define MOONRING_BASE_TRACE_SPAN_H_

// A span is an interval of time in a trace: what was done, when it began and ended, and numbers
// that describe it.

#include <array>
#include <cstdint>

namespace moonring::base {

// A kind of spans: the names that all spans of the kind share. Must outlive the recorder.
struct SpanKind {
  const char* name = "";
  const char* category = "";
  const char* text = nullptr;               // the name of a span's text, if it has one
  std::array<const char*, 6> numbers = {};  // the names of a span's numbers
  // Null: the span belongs to the thread that records it, nested in the surrounding spans.
  // Otherwise the span is concurrent with the threads (e.g. a transfer), and is shown on rows with
  // this name.
  const char* beside = nullptr;
  bool is_fine = false;
};

// Times are nanoseconds of the recorder's clock.
struct SpanEvent {
  const SpanKind* kind = nullptr;
  int64_t begin = 0, end = 0;
  std::array<int64_t, 6> numbers = {};
  int32_t text = -1;  // a number from TraceRecorder::Text; -1: none
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_SPAN_H_
