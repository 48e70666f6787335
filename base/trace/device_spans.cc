#include "base/trace/device_spans.h"

#include <utility>

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace moonring::base {
namespace {

// Records an event on the current stream, with its time.
c10::Event Record(const c10::Device& device) {
  c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

}  // namespace

int64_t DeviceSpans::Begin(const c10::Device& device) {
  if (!origin_.has_value()) {
    origin_.emplace(Record(device));
    origin_->synchronize();
    origin_time_ = clock_();
  }
  spans_.push_back(
      {Record(device), c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT), device, {}});
  return static_cast<int64_t>(spans_.size()) - 1;
}

void DeviceSpans::End(int64_t number, const SpanEvent& span) {
  One& one = spans_.at(number);
  one.end = Record(one.device);
  one.span = span;
  one.ended = true;
}

std::vector<SpanEvent> DeviceSpans::Finish() {
  std::vector<SpanEvent> done;
  const auto time_of = [&](const c10::Event& event) {
    event.synchronize();
    return origin_time_ + static_cast<int64_t>(origin_->elapsedTime(event) * 1e6);
  };
  for (One& one : std::exchange(spans_, {})) {
    if (!one.ended) continue;
    one.span.begin = time_of(one.begin);
    one.span.end = time_of(one.end);
    done.push_back(one.span);
  }
  return done;
}

}  // namespace moonring::base
