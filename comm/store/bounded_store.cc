#include "comm/store/bounded_store.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Inner = c10::intrusive_ptr<c10d::Store>;

// Extra time for a call that itself waits for a key, so that it can report its own timeout.
constexpr std::chrono::milliseconds kGrace{1000};

}  // namespace

struct BoundedStore::State {
  struct Task {
    std::function<void(Inner&)> call;
    std::chrono::milliseconds limit;
    std::exception_ptr error;
    bool done = false;
  };

  Inner store;  // used by the thread only

  std::mutex mutex;
  std::condition_variable asked, answered;
  std::deque<std::shared_ptr<Task>> tasks;  // the first is in progress
  Clock::time_point began;                  // when the first one began
  bool closed = false;

  void Work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      asked.wait(lock, [&] { return closed || !tasks.empty(); });
      if (closed) break;
      const std::shared_ptr<Task> task = tasks.front();
      lock.unlock();
      try {
        task->call(store);
      } catch (...) {
        task->error = std::current_exception();
      }
      lock.lock();
      task->done = true;
      tasks.pop_front();
      began = Clock::now();
      answered.notify_all();
    }
    lock.unlock();
    store.reset();
  }

  // Runs the task on the thread and waits for it. DEADLINE_EXCEEDED if the task is not done in
  // time.
  absl::Status Do(const std::shared_ptr<Task>& task, const std::string& server) {
    std::unique_lock<std::mutex> lock(mutex);
    if (tasks.empty()) began = Clock::now();
    tasks.push_back(task);
    asked.notify_one();
    while (!task->done) {
      const Clock::time_point now = Clock::now(), expires = began + tasks.front()->limit;
      if (now < expires) {
        answered.wait_until(lock, expires);
        continue;
      }
      if (tasks.front() != task) std::erase(tasks, task);
      const absl::Duration silence =
          absl::Trunc(absl::FromChrono(now - began), absl::Milliseconds(10));
      return absl::DeadlineExceededError(absl::StrCat(
          server, " is stopped or out of reach (the store that it serves has given no answer for ",
          absl::FormatDuration(silence), ")"));
    }
    return absl::OkStatus();
  }
};

template <typename Call>
auto BoundedStore::Ask(std::chrono::milliseconds limit, Call call) {
  using Result = std::invoke_result_t<Call, Inner&>;
  using Kept = std::conditional_t<std::is_void_v<Result>, char, Result>;
  const auto result =
      std::make_shared<std::optional<Kept>>();  // kept by the thread if the caller stops waiting
  const auto task = std::make_shared<State::Task>();
  task->limit = limit;
  task->call = [result, call = std::move(call)](Inner& store) {
    if constexpr (std::is_void_v<Result>) {
      call(store);
    } else {
      *result = call(store);
    }
  };
  base::ThrowIfError(state_->Do(task, server_));
  if (task->error) std::rethrow_exception(task->error);
  if constexpr (!std::is_void_v<Result>) return *std::move(*result);
}

BoundedStore::BoundedStore(std::string server, std::chrono::milliseconds timeout,
                           const Connect& connect)
    : c10d::Store(timeout),
      server_(std::move(server)),
      state_(std::make_shared<State>()),
      thread_([state = state_] { state->Work(); }) {
  try {
    extended_ = Ask(timeout + kGrace, [connect](Inner& store) {
      store = connect();
      return store->hasExtendedApi();
    });
  } catch (...) {
    End();
    throw;
  }
}

BoundedStore::~BoundedStore() { End(); }

void BoundedStore::End() {
  bool busy = false;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closed = true;
    busy = !state_->tasks.empty();
  }
  state_->asked.notify_one();
  busy ? thread_.detach() : thread_.join();
}

c10::intrusive_ptr<c10d::Store> BoundedStore::clone() {
  const auto again = [](Inner& store) { return store->clone(); };
  return c10::make_intrusive<BoundedStore>(server_, timeout_,
                                           [store = Ask(timeout_, again)] { return store; });
}

void BoundedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  Ask(timeout_, [=](Inner& store) { store->set(key, value); });
}

std::vector<uint8_t> BoundedStore::compareSet(const std::string& key,
                                              const std::vector<uint8_t>& expected,
                                              const std::vector<uint8_t>& desired) {
  return Ask(timeout_, [=](Inner& store) { return store->compareSet(key, expected, desired); });
}

std::vector<uint8_t> BoundedStore::get(const std::string& key) {
  return Ask(timeout_ + kGrace, [=, timeout = timeout_](Inner& store) {
    store->wait({key}, timeout);
    return store->get(key);
  });
}

int64_t BoundedStore::add(const std::string& key, int64_t value) {
  return Ask(timeout_, [=](Inner& store) { return store->add(key, value); });
}

bool BoundedStore::deleteKey(const std::string& key) {
  return Ask(timeout_, [=](Inner& store) { return store->deleteKey(key); });
}

bool BoundedStore::check(const std::vector<std::string>& keys) {
  return Ask(timeout_, [=](Inner& store) { return store->check(keys); });
}

int64_t BoundedStore::getNumKeys() {
  return Ask(timeout_, [](Inner& store) { return store->getNumKeys(); });
}

void BoundedStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void BoundedStore::wait(const std::vector<std::string>& keys,
                        const std::chrono::milliseconds& timeout) {
  Ask(timeout + kGrace, [=](Inner& store) { store->wait(keys, timeout); });
}

void BoundedStore::append(const std::string& key, const std::vector<uint8_t>& value) {
  Ask(timeout_, [=](Inner& store) { store->append(key, value); });
}

std::vector<std::vector<uint8_t>> BoundedStore::multiGet(const std::vector<std::string>& keys) {
  return Ask(timeout_ + kGrace, [=, timeout = timeout_](Inner& store) {
    store->wait(keys, timeout);
    return store->multiGet(keys);
  });
}

void BoundedStore::multiSet(const std::vector<std::string>& keys,
                            const std::vector<std::vector<uint8_t>>& values) {
  Ask(timeout_, [=](Inner& store) { store->multiSet(keys, values); });
}

}  // namespace moonring::comm
