#ifndef MOONRING_BASE_TRACE_DEVICE_SPANS_H_
#define MOONRING_BASE_TRACE_DEVICE_SPANS_H_

// Spans of a GPU: what its stream did between two events, on the host's clock. Not run on a card
// yet.
//
// The first span of a trace waits for the device once, so that an event and the host's clock can be
// said to be of the same moment; the device's own clock counts from there. A span is two events,
// read when the trace ends.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "base/trace/span.h"

namespace moonring::base {

class DeviceSpans {
 public:
  explicit DeviceSpans(std::function<int64_t()> clock) : clock_(std::move(clock)) {}

  // The number of a span that begins with what the current stream of `device` is given next.
  int64_t Begin(const c10::Device& device);
  // It ends with what the stream has been given so far; `span` says what it was.
  void End(int64_t number, const SpanEvent& span);

  // Waits for the device, and gives the spans that have ended, which are forgotten.
  std::vector<SpanEvent> Finish();

 private:
  struct One {
    c10::Event begin, end;
    c10::Device device;
    SpanEvent span;
    bool ended = false;
  };

  std::function<int64_t()> clock_;
  std::optional<c10::Event> origin_;
  int64_t origin_time_ = 0;
  std::vector<One> spans_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_DEVICE_SPANS_H_
