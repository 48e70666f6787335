#ifndef MOONRING_BASE_TRACE_RECORDER_H_
#define MOONRING_BASE_TRACE_RECORDER_H_

// Records what a rank does and when, as spans of its threads, for traces (docs/traces.md).
//
//   constexpr SpanKind kNorm = {.name = "norm", .category = "compute", .numbers = {"rows"}};
//   const TraceSpan span(kNorm, {rows});   // from here to the end of the scope
//
// A recorder records the thread that started it, and the work that base::RunParallelTasks does for
// that thread. Without a recorder a span costs one comparison of a thread-local pointer with null,
// and does not read the clock. With a recorder, a span costs two clock readings and 88 bytes. At
// most Options::most spans are recorded. From half of that number on, fine spans
// (SpanKind::is_fine, such as tiles) are omitted. left_out() counts the omitted spans.
//
// For work on a GPU, a span of the host only covers the time to enqueue the work; OnDevice adds a
// span of the device itself (device_spans.h).

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/trace/span.h"

namespace moonring::base {

class DeviceSpans;
class TraceRecorder;

// A thread's events, in the order in which they ended.
struct TracedThread {
  TraceRecorder* recorder = nullptr;
  int number = 0;  // 0: the thread that started the recorder
  std::mutex mutex;
  std::vector<SpanEvent> events;

  void Add(const SpanEvent& event);
};

// The record of the calling thread; null if nothing is recorded.
extern constinit thread_local TracedThread* traced_thread;

int64_t SteadyNanoseconds();

class TraceRecorder : public std::enable_shared_from_this<TraceRecorder> {
 public:
  struct Options {
    int64_t most = int64_t{1} << 20;
    std::function<int64_t()> clock = SteadyNanoseconds;
  };
  explicit TraceRecorder(Options options);
  TraceRecorder() : TraceRecorder(Options()) {}
  ~TraceRecorder();  // must run on the thread that started it
  TraceRecorder(const TraceRecorder&) = delete;

  // Start records the calling thread until Stop is called on it. Both may be called repeatedly. A
  // thread can have only one recorder at a time.
  void Start();
  void Stop();

  int64_t Now() const { return options_.clock(); }

  // Returns a number that represents `text` in SpanEvent::text; equal texts get the same number.
  int32_t Text(absl::string_view text);
  std::string text(int32_t number) const;
  // Returns a kind of spans whose names come from a script; equal names return the same kind.
  // `number` names the number that each span of the kind has; "" if spans have no number.
  const SpanKind& Named(const std::string& name, const std::string& category,
                        const std::string& number = "");

  // Returns whether one more event may be recorded. Counts the event as recorded or as omitted.
  bool MakeRoom(bool is_fine);
  int64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

  // Returns the calling thread's record, which is created at the first call.
  TracedThread* Thread();
  // The events of each thread, by its number; the device's events last, with number -1.
  std::vector<std::pair<int, std::vector<SpanEvent>>> Events() const;

  DeviceSpans& on_device();

 private:
  struct NamedKind {
    std::string name, category, number;
    SpanKind kind;
  };

  Options options_;
  std::atomic<int64_t> count_ = 0, left_out_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  std::deque<TracedThread> threads_;
  absl::flat_hash_map<std::thread::id, TracedThread*> of_thread_;
  std::deque<std::string> texts_;
  absl::flat_hash_map<std::string, int32_t> number_of_text_;
  std::deque<NamedKind> named_;
  absl::flat_hash_map<std::string, const SpanKind*> kind_of_name_;
  std::vector<SpanEvent> device_events_;
  std::unique_ptr<DeviceSpans> on_device_;
};

// The recorder of the calling thread; null if there is none.
inline TraceRecorder* CurrentTrace() {
  return traced_thread == nullptr ? nullptr : traced_thread->recorder;
}

// While an object of this class is alive, `recorder` records the calling thread too. For a thread
// that works on behalf of a recorded thread.
class TraceOnThread {
 public:
  explicit TraceOnThread(TraceRecorder* recorder);
  ~TraceOnThread() { traced_thread = before_; }
  TraceOnThread(const TraceOnThread&) = delete;
  TraceOnThread& operator=(const TraceOnThread&) = delete;

 private:
  TracedThread* const before_;
};

class TraceSpan {
 public:
  explicit TraceSpan(const SpanKind& kind, std::initializer_list<int64_t> numbers = {},
                     absl::string_view text = {}) {
    if (traced_thread != nullptr) [[unlikely]]
      Begin(kind, numbers, text);
  }
  ~TraceSpan() {
    if (thread_ != nullptr) [[unlikely]]
      End();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // Also records a span of `device`, from the next work queued on its current stream; does nothing
  // on a CPU.
  void OnDevice(const c10::Device& device) {
    if (thread_ != nullptr && !device.is_cpu()) [[unlikely]]
      BeginOnDevice(device);
  }

 private:
  void Begin(const SpanKind& kind, std::initializer_list<int64_t> numbers, absl::string_view text);
  void BeginOnDevice(const c10::Device& device);
  void End();

  TracedThread* thread_ = nullptr;
  std::optional<SpanEvent> event_;  // empty if nothing is recorded
  int64_t device_span_ = -1;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_TRACE_RECORDER_H_
