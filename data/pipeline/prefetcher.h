// A source that prepares the items of another source in advance, on a background thread.
//
// The thread starts with the first Next() and keeps at most `depth` items ready. An error or
// exception of the other (inner) source is reported by Next() at its position in the sequence of
// items and ends the sequence: every later Next() reports it again. SaveState() returns the
// position after the last item returned by Next(), regardless of how many more items are prepared.
// LoadState() discards the prepared items and restarts.
//
// Next, SaveState, LoadState and Close must be called on the consumer's thread; the inner source is
// used by one thread at a time. Close(), which the destructor calls, waits only for the item in
// preparation; after it, Next() fails.
#ifndef MOONRING_DATA_PIPELINE_PREFETCHER_H_
#define MOONRING_DATA_PIPELINE_PREFETCHER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/torch_status.h"
#include "base/trace/recorder.h"
#include "data/pipeline/source.h"

namespace moonring::data {

template <class T>
class Prefetcher final : public Source<T> {
 public:
  Prefetcher(std::unique_ptr<Source<T>> source, int64_t depth)
      : source_(std::move(source)), depth_(depth), place_(source_->SaveState()) {
    TORCH_CHECK(depth >= 1, "a prefetcher must keep at least 1 item, got ", depth);
  }
  ~Prefetcher() override { Close(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  absl::StatusOr<std::optional<T>> Next() override {
    if (closed_)
      return absl::FailedPreconditionError("prefetcher: asked for an item after it was closed");
    Trace(base::CurrentTrace());
    if (!thread_.joinable()) {
      thread_ = std::thread([this, confined = base::CurrentConfinement()] {
        const base::ConfinedScope scope(confined);
        Work();
      });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    if (ready_.front().Ends()) {  // stays in the queue, to be reported again
      if (ready_.front().item.ok()) place_ = ready_.front().place;
      return ready_.front().item.ok() ? absl::StatusOr<std::optional<T>>(std::nullopt)
                                      : ready_.front().item.status();
    }
    Prepared prepared = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    place_ = std::move(prepared.place);
    return std::move(prepared.item);
  }

  std::string SaveState() const override { return place_; }

  absl::Status LoadState(absl::string_view state) override {
    if (closed_)
      return absl::FailedPreconditionError("prefetcher: asked to load a state after it was closed");
    Stop();
    const absl::Status loaded = source_->LoadState(state);
    // The inner source may be ahead of the consumer. If it rejects the new state, the inner source
    // is moved back to the consumer's position.
    if (!loaded.ok()) {
      const absl::Status back = source_->LoadState(place_);
      return back.ok() ? loaded
                       : absl::InternalError(
                             absl::StrCat(loaded.message(), "; and then: ", back.message()));
    }
    place_ = source_->SaveState();
    return absl::OkStatus();
  }

  void Close() {
    closed_ = true;
    Stop();
  }

 private:
  struct Prepared {
    absl::StatusOr<std::optional<T>> item;
    std::string place;  // state after it
    bool Ends() const { return !item.ok() || !item->has_value(); }
  };

  // Stops the thread after its current item and discards the prepared items.
  void Stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    stop_ = false;
    ready_.clear();
  }

  void Work() {
    while (true) {
      Prepared prepared = Prepare();
      std::unique_lock<std::mutex> lock(mutex_);
      const bool ends = prepared.Ends();
      ready_.push_back(std::move(prepared));
      changed_.notify_all();
      if (ends) return;
      changed_.wait(lock, [this] { return stop_ || static_cast<int64_t>(ready_.size()) < depth_; });
      if (stop_) return;
    }
  }

  Prepared Prepare() {
    static constexpr base::SpanKind kPrepare = {.name = "read and pack", .category = "data"};
    const std::shared_ptr<base::TraceRecorder> trace = Trace();
    const base::TraceOnThread traced(trace.get());
    const base::TraceSpan span(kPrepare);
    try {
      absl::StatusOr<std::optional<T>> item = source_->Next();
      return {std::move(item), source_->SaveState()};
    } catch (const std::exception& exception) {
      return {base::StatusOfException(exception), ""};
    }
  }

  void Trace(base::TraceRecorder* recorder) {
    const std::lock_guard<std::mutex> lock(mutex_);
    trace_ = recorder == nullptr ? nullptr : recorder->weak_from_this().lock();
  }
  std::shared_ptr<base::TraceRecorder> Trace() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return trace_;
  }

  std::unique_ptr<Source<T>> source_;
  const int64_t depth_;
  std::string place_;
  bool closed_ = false;
  std::thread thread_;

  std::mutex mutex_;                            // guards the following members
  std::shared_ptr<base::TraceRecorder> trace_;  // the consumer's at its last Next(); may be null
  std::condition_variable changed_;
  std::deque<Prepared> ready_;
  bool stop_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_PIPELINE_PREFETCHER_H_
