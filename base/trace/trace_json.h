#ifndef MOONRING_BASE_TRACE_TRACE_JSON_H_
#define MOONRING_BASE_TRACE_TRACE_JSON_H_

// Converts a recorder's events to Chrome's trace-event format, which Perfetto and chrome://tracing
// can open.
//
// Each rank is a process. Its rows are its own thread ("compute"), the threads that work for it,
// transfers (one row for each concurrent transfer: "sends 1", "sends 2", ...), and the GPU. Every
// span is a complete event ("X") with its numbers and text as args; spans of one row are nested or
// disjoint. Arrows ("s", "f") connect a send on one rank to the receive on another.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/trace/recorder.h"

namespace moonring::base {

// Kinds of transfers. In a group, the n-th message that rank a sends to rank b is the n-th that b
// receives from a. `transfer`: a number on this rank that the span waiting for the transfer also
// has.
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

// `time` converts the recorder's clock to nanoseconds of the trace. Each event is one line,
// followed by ",\n".
std::string TraceEventsJson(const TraceRecorder& recorder, int rank,
                            const std::function<int64_t(int64_t)>& time);

// The text as a JSON string literal.
std::string QuotedJson(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_TRACE_JSON_H_
