#ifndef MOONRING_BASE_TRACE_DEVICE_SPANS_H_
#define MOONRING_BASE_TRACE_DEVICE_SPANS_H_

// Records spans (timed intervals) of a GPU for a trace: what its stream did between two events,
// with times converted to the host's clock. Not tested on a GPU yet.
//
// The first span of a trace waits for the device once, to relate an event to the host's clock. All
// later times come from the device's own clock. Each span consists of two events, which are read
// when the trace ends.

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

  // Begins a span with the next work queued on the current stream of `device`; returns the span's
  // number.
  int64_t Begin(const c10::Device& device);
  // Ends the span with the last work queued on the stream so far; `span` describes it.
  void End(int64_t number, const SpanEvent& span);

  // Waits for the device; returns and forgets the spans that have ended.
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
