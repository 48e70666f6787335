#ifndef MOONRING_BASE_TRACE_TRACE_JSON_H_
#define MOONRING_BASE_TRACE_TRACE_JSON_H_

// Converts a recorder's events to Chrome's trace-event format, which Perfetto and chrome://tracing
// can open.
//
// In the trace each rank is a process. The rows of a process show the rank's own thread
// ("compute"), the threads that work for this thread, transfers (one row for each concurrent
// transfer: "sends 1", "sends 2", ...), and the GPU. Every span is a complete event ("X") with its
// numbers and text as args; spans of one row are nested or disjoint. Arrows ("s", "f") connect a
// send on one rank to the receive on another.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/trace/recorder.h"

namespace moonring::base {

// Kinds of transfers. In a group, the n-th message that rank a sends to rank b is the n-th that b
// receives from a. `transfer` is the transfer's number on this rank; the span of the wait for the
// transfer has the same number.
inline constexpr char kSendRow[] = "sends", kReceiveRow[] = "receives", kCallRow[] = "collectives";
inline constexpr SpanKind kSend = {.name = "send",
                                   .category = "transfer",
                                   .text = "group",
                                   .numbers = {"peer", "bytes", "message", "transfer"},
                                   .beside = kSendRow};
inline constexpr SpanKind kReceive = {.name = "receive",
                                      .category = "transfer",
                                      .text = "group",
                                      .numbers = {"peer", "bytes", "message", "transfer"},
                                      .beside = kReceiveRow};

// Returns the recorder's events as JSON, one event a line, each followed by ",\n". `time` converts
// a time of the recorder's clock to nanoseconds of the trace.
std::string TraceEventsJson(const TraceRecorder& recorder, int rank,
                            const std::function<int64_t(int64_t)>& time);

// Returns the text as a JSON string literal.
std::string QuotedJson(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_TRACE_JSON_H_
