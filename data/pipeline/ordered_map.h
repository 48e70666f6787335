// Applies a function to items on several threads and returns the results in the order of the items.
//
//   while (more items || !map.Empty()) { add while !map.Full(); use map.Take(); }
//
// Threads are started on demand, when an item finds no idle thread: at most `threads`, and at most
// one per core. If the system refuses to start more threads, the existing ones do the work. With
// one thread, or if none can be started, the function runs on the caller's thread, in Take(). At
// most kAhead items per thread are kept, so memory is bounded. An exception of the function is
// rethrown by the Take() of its item. Add and Take must be called from one thread; the function
// runs on several at a time. The destructor waits only for the items that are being processed.
#ifndef MOONRING_DATA_PIPELINE_ORDERED_MAP_H_
#define MOONRING_DATA_PIPELINE_ORDERED_MAP_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/files/confinement.h"

namespace moonring::data {

template <class In, class Out>
class OrderedMap {
 public:
  // `cores`: how many threads can run at the same time.
  OrderedMap(int64_t threads, std::function<Out(In)> function,
             int64_t cores = std::thread::hardware_concurrency())
      : function_(std::move(function)),
        most_threads_(std::min(threads, std::max<int64_t>(cores, 1))) {
    TORCH_CHECK(threads >= 1, "expected at least 1 thread, got ", threads);
    if (most_threads_ == 1) most_threads_ = 0;
  }
  ~OrderedMap() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    added_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedMap(const OrderedMap&) = delete;
  OrderedMap& operator=(const OrderedMap&) = delete;

  bool Empty() const { return held_ == 0; }
  bool Full() const { return held_ >= std::max<int64_t>(kAhead * most_threads_, 1); }

  void Add(In item) {
    TORCH_CHECK(!Full(), "an item more than may be held: take a result first");
    ++held_;
    const std::lock_guard<std::mutex> lock(mutex_);
    places_.push_back({.item = std::move(item)});
    if (places_.size() - begun_ > free_) StartThread();
    added_.notify_one();
  }

  Out Take() {
    TORCH_CHECK(!Empty(), "no item whose result could be taken");
    if (threads_.empty()) {
      Run(places_.front());
    } else {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return places_.front().done; });
    }
    --held_;
    const std::lock_guard<std::mutex> lock(mutex_);
    Place place = std::move(places_.front());
    places_.pop_front();
    if (!threads_.empty()) --begun_;
    if (place.thrown) std::rethrow_exception(place.thrown);
    return *std::move(place.result);
  }

 private:
  static constexpr int64_t kAhead = 32;  // enough that a slow item does not make other threads wait

  struct Place {
    In item;
    std::optional<Out> result;
    std::exception_ptr thrown;
    bool done = false;
  };

  void Run(Place& place) const {
    try {
      place.result = function_(std::move(place.item));
    } catch (...) {
      place.thrown = std::current_exception();
    }
  }

  // Requires mutex_ to be locked.
  void StartThread() {
    if (static_cast<int64_t>(threads_.size()) >= most_threads_) return;
    try {
      threads_.emplace_back([this, confined = base::CurrentConfinement()] {
        const base::ConfinedScope scope(confined);
        Work();
      });
      ++free_;
    } catch (const std::system_error&) {
      most_threads_ = static_cast<int64_t>(threads_.size());
    }
  }

  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      added_.wait(lock, [this] { return stop_ || begun_ < places_.size(); });
      if (stop_) return;
      --free_;
      Place& place = places_[begun_++];  // deque elements do not move until Take()
      lock.unlock();
      Run(place);
      lock.lock();
      place.done = true;
      ++free_;
      if (&place == &places_.front()) done_.notify_one();
    }
  }

  const std::function<Out(In)> function_;
  int64_t most_threads_;  // in addition to the caller's
  int64_t held_ = 0;      // size of places_, for the caller's thread

  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<Place> places_;
  size_t begun_ = 0;  // number of places_, from the front, that are in progress or done
  size_t free_ = 0;   // idle threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_PIPELINE_ORDERED_MAP_H_
