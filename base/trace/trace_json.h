#ifndef MOONRING_BASE_TRACE_TRACE_JSON_H_
#define MOONRING_BASE_TRACE_TRACE_JSON_H_

// A recorder's events in Chrome's trace-event format, which Perfetto and chrome://tracing open.
//
// A rank is a process. Its rows are its own thread ("compute"), threads that work for it, what
// travels (as many rows as are under way at a time: "sends 1", "sends 2", ...), and the GPU. Every
// span is a complete event ("X") with its numbers and text as args; spans of one row nest or follow
// one another. Arrows ("s", "f") lead from what one rank sends to what another receives.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/trace/recorder.h"

namespace moonring::base {

// Kinds of what travels. The n-th message of a rank to another one in a group is the n-th that this
// one receives of it. transfer: of a rank, what a span that waits for it names too.
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

// `time`: from a time of the recorder's clock to nanoseconds of the trace's. One event a line, each
// with ",\n" behind it.
std::string TraceEventsJson(const TraceRecorder& recorder, int rank,
                            const std::function<int64_t(int64_t)>& time);

// "text" as JSON has it.
std::string QuotedJson(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_TRACE_JSON_H_
