#include "base/threads/spin_control.h"

#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

namespace moonring::base {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPeriod = std::chrono::milliseconds(50);
// Fractions of a thread's time that it waited for a core, averaged over about half a second, so
// that a short burst of another program has no effect. The threads of this process alone make each
// other wait for about 3 % of the time.
constexpr double kBusy = 0.10;   // above this, cores are scarce
constexpr double kCalm = 0.06;   // below this, they are not
constexpr double kNewest = 0.1;  // weight of the newest period in the mean
constexpr int kSpare = 8;        // threads that others may start meanwhile

// Whether `count` threads can be created: libgomp ends the process if it cannot create one.
bool CanMake(int count) {
  std::mutex held;
  std::vector<std::thread> threads;
  bool can = true;
  {
    const std::lock_guard<std::mutex> all_live(held);
    try {
      for (int i = 0; i < count; ++i) {
        threads.emplace_back([&held] { const std::lock_guard<std::mutex> wait(held); });
      }
    } catch (const std::system_error&) {
      can = false;
    }
  }
  for (std::thread& thread : threads) thread.join();
  return can;
}

// Starts a thread with all signals blocked, so that other threads receive the process's signals.
template <typename Body>
std::thread StartWithoutSignals(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto restore =
      absl::MakeCleanup([&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  return std::thread(std::move(body));
}

}  // namespace

int64_t SpinControl::WaitedForCores() {
  const std::string self = std::to_string(gettid());
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  const auto close = absl::MakeCleanup([tasks] { closedir(tasks); });
  int64_t sum = 0;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || self == entry->d_name) continue;
    FILE* file =
        std::fopen((std::string("/proc/self/task/") + entry->d_name + "/schedstat").c_str(), "re");
    if (file == nullptr) continue;  // the thread has ended
    long long ran = 0, waited = 0;
    if (std::fscanf(file, "%lld %lld", &ran, &waited) == 2) sum += waited;
    std::fclose(file);
  }
  return sum;
}

SpinControl::SpinControl(int threads, std::function<int64_t()> waited)
    : threads_(threads), waited_(std::move(waited)) {}

std::shared_ptr<SpinControl> SpinControl::Start(int threads, std::function<int64_t()> waited) {
  static std::mutex mutex;
  static std::weak_ptr<SpinControl> running;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    return nullptr;
  if (threads < 2 || access("/proc/self/schedstat", R_OK) != 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (auto shared = running.lock()) return shared;
  std::shared_ptr<SpinControl> control(new SpinControl(threads, std::move(waited)));
  try {
    control->watcher_ = StartWithoutSignals([self = control.get()] { self->Watch(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  running = control;
  return control;
}

SpinControl::~SpinControl() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  ReleaseTeam();
}

void SpinControl::Watch() {
  Clock::time_point then = Clock::now();
  int64_t waited = waited_();
  Clock::duration looking = {};  // the time of one measurement; more threads take longer
  double mean = 0;
  for (std::unique_lock<std::mutex> lock(mutex_); !changed_.wait_for(
           lock, std::max<Clock::duration>(kPeriod, 500 * looking), [this] { return ends_; });) {
    lock.unlock();
    const Clock::time_point now = Clock::now();
    const int64_t waited_now = waited_();
    looking = Clock::now() - now;
    const double passed = static_cast<double>(std::chrono::nanoseconds(now - then).count());
    const double share = static_cast<double>(waited_now - waited) / (threads_ * passed);
    then = now;
    waited = waited_now;
    mean += kNewest * (share - mean);
    if (mean > kBusy) {
      KeepTeam();
    } else if (mean < kCalm) {
      ReleaseTeam();
    }
    lock.lock();
  }
}

void SpinControl::KeepTeam() {
  // With a team of this size, libgomp manages one thread more than there are cores.
  const int team = std::max(2, omp_get_num_procs() - threads_ + 2);
  if (team_.joinable() || !CanMake(team + kSpare)) return;
  team_wanted_ = true;
  try {
    team_ = std::thread([this, team] {
    // The parallel region creates a team of threads, which belong to this thread. They sleep until
    // this thread ends.
#pragma omp parallel num_threads(team)
      {
        // The compiler would remove an empty parallel region, so this one contains an empty
        // instruction.
        asm volatile("");
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !team_wanted_; });
    });
  } catch (const std::system_error&) {
    team_wanted_ = false;  // no thread can be started now
  }
}

void SpinControl::ReleaseTeam() {
  if (!team_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    team_wanted_ = false;
  }
  changed_.notify_all();
  team_.join();
}

}  // namespace moonring::base
