// A function applied to items on threads; its results come in the order of the items, whatever
// order they are ready in.
//
//   while (more items || !map.Empty()) { add while !map.Full(); use map.Take(); }
//
// Threads are started as items come that no thread is free for: at most as many as are asked for,
// and as there are cores. Where the system gives no more, those that there are do the work. With
// one thread, or none to be had, the function runs on the caller's, in Take(). At most kAhead items
// a thread are held, so memory is bounded. What the function throws comes out of Take(), in its
// place. Add and Take belong to one thread; the function runs on several at a time. The destructor
// waits for the items in hand, no longer.
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
  // `cores`: how many threads can run at a time.
  OrderedMap(int64_t threads, std::function<Out(In)> function,
             int64_t cores = std::thread::hardware_concurrency())
      : function_(std::move(function)),
        most_threads_(std::min(threads, std::max<int64_t>(cores, 1))) {
    TORCH_CHECK(threads >= 1, "wanted at least 1 thread, got ", threads);
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
  static constexpr int64_t kAhead = 32;  // enough that a long item keeps no thread waiting

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

  // Under mutex_.
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
      Place& place = places_[begun_++];  // stays where it is until it is taken
      lock.unlock();
      Run(place);
      lock.lock();
      place.done = true;
      ++free_;
      if (&place == &places_.front()) done_.notify_one();
    }
  }

  const std::function<Out(In)> function_;
  int64_t most_threads_;  // besides the caller's
  int64_t held_ = 0;      // the caller's count of places_

  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<Place> places_;
  size_t begun_ = 0;  // of places_, from the front: with a thread, or done
  size_t free_ = 0;   // threads that have no item
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_PIPELINE_ORDERED_MAP_H_
