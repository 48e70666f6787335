#include "base/trace/recorder.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/trace/device_spans.h"

namespace moonring::base {

constinit thread_local TracedThread* traced_thread = nullptr;

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The lock is needed because a worker thread may add an event while the events are read.
void TracedThread::Add(const SpanEvent& event) {
  if (!recorder->MakeRoom(event.kind->is_fine)) return;
  const std::lock_guard<std::mutex> lock(mutex);
  events.push_back(event);
}

TraceRecorder::TraceRecorder(Options options) : options_(std::move(options)) {}

TraceRecorder::~TraceRecorder() {
  if (CurrentTrace() == this) traced_thread = nullptr;
}

void TraceRecorder::Start() {
  TORCH_CHECK_VALUE(traced_thread == nullptr, "trace: another recorder records this thread");
  traced_thread = Thread();
}

void TraceRecorder::Stop() {
  if (CurrentTrace() != this) return;
  traced_thread = nullptr;
  if (on_device_ == nullptr) return;
  try {
    std::vector<SpanEvent> done = on_device_->Finish();
    const std::lock_guard<std::mutex> lock(mutex_);
    device_events_.insert(device_events_.end(), done.begin(), done.end());
  } catch (const std::exception&) {  // the device failed or keeps no time: spans are missing
  }
}

int32_t TraceRecorder::Text(absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, is_new] =
      number_of_text_.try_emplace(std::string(text), static_cast<int32_t>(texts_.size()));
  if (is_new) texts_.emplace_back(text);
  return found->second;
}

std::string TraceRecorder::text(int32_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return texts_.at(number);
}

const SpanKind& TraceRecorder::Named(const std::string& name, const std::string& category,
                                     const std::string& number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const SpanKind*& kind = kind_of_name_[absl::StrCat(category, "/", name, "/", number)];
  if (kind == nullptr) {
    NamedKind& named = named_.emplace_back(NamedKind{name, category, number, {}});
    named.kind = {.name = named.name.c_str(), .category = named.category.c_str()};
    if (!number.empty()) named.kind.numbers[0] = named.number.c_str();
    kind = &named.kind;
  }
  return *kind;
}

bool TraceRecorder::MakeRoom(bool is_fine) {
  const int64_t most = is_fine ? options_.most / 2 : options_.most;
  if (count_.load(std::memory_order_relaxed) < most) {
    count_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  left_out_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

TracedThread* TraceRecorder::Thread() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TracedThread*& thread = of_thread_[std::this_thread::get_id()];
  if (thread == nullptr) {
    thread = &threads_.emplace_back();
    thread->recorder = this;
    thread->number = static_cast<int>(threads_.size()) - 1;
  }
  return thread;
}

std::vector<std::pair<int, std::vector<SpanEvent>>> TraceRecorder::Events() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<int, std::vector<SpanEvent>>> all;
  for (const TracedThread& thread : threads_) {
    const std::lock_guard<std::mutex> of_thread(const_cast<std::mutex&>(thread.mutex));
    all.emplace_back(thread.number, thread.events);
  }
  if (!device_events_.empty()) all.emplace_back(-1, device_events_);
  return all;
}

DeviceSpans& TraceRecorder::on_device() {
  if (on_device_ == nullptr) on_device_ = std::make_unique<DeviceSpans>(options_.clock);
  return *on_device_;
}

TraceOnThread::TraceOnThread(TraceRecorder* recorder) : before_(traced_thread) {
  if (recorder != nullptr && CurrentTrace() != recorder) traced_thread = recorder->Thread();
}

void TraceSpan::Begin(const SpanKind& kind, std::initializer_list<int64_t> numbers,
                      absl::string_view text) {
  thread_ = traced_thread;
  SpanEvent& event = event_.emplace(SpanEvent{.kind = &kind});
  std::copy_n(numbers.begin(), std::min(numbers.size(), event.numbers.size()),
              event.numbers.begin());
  if (kind.text != nullptr) event.text = thread_->recorder->Text(text);
  event.begin = thread_->recorder->Now();
}

void TraceSpan::BeginOnDevice(const c10::Device& device) {
  device_span_ = thread_->recorder->on_device().Begin(device);
}

void TraceSpan::End() {
  event_->end = thread_->recorder->Now();
  thread_->Add(*event_);
  if (device_span_ < 0) return;
  try {
    thread_->recorder->on_device().End(device_span_, *event_);
  } catch (const std::exception&) {  // the device failed, which its own calls report
  }
}

}  // namespace moonring::base
