#include "comm/spin_control.h"

#include <dirent.h>
#include <omp.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"

namespace moonring::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPeriod = std::chrono::milliseconds(50);
constexpr double kBusy = 0.05;      // of the time, from which the cores are short
constexpr double kCalm = 0.02;      // below which they are not,
constexpr int kCalmPeriods = 20;    // for a second on end

// Nanoseconds that this process's threads have waited for a core, added up over those that live, but for the calling one:
// the watcher's own wake-ups are no work.
int64_t WaitedForCores() {
  const std::string self = std::to_string(gettid());
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  const auto close = absl::MakeCleanup([tasks] { closedir(tasks); });
  int64_t sum = 0;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || self == entry->d_name) continue;
    FILE* file = std::fopen((std::string("/proc/self/task/") + entry->d_name + "/schedstat").c_str(), "re");
    if (file == nullptr) continue;  // it has ended
    long long ran = 0, waited = 0;
    if (std::fscanf(file, "%lld %lld", &ran, &waited) == 2) sum += waited;
    std::fclose(file);
  }
  return sum;
}

}  // namespace

std::unique_ptr<SpinControl> SpinControl::Start(int threads) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return nullptr;
  if (threads < 2 || access("/proc/self/schedstat", R_OK) != 0) return nullptr;
  std::unique_ptr<SpinControl> control(new SpinControl);
  try {
    control->watcher_ = std::thread([self = control.get()] { self->Watch(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
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
  int64_t waited = WaitedForCores();
  int calm = 0;
  for (std::unique_lock<std::mutex> lock(mutex_); !changed_.wait_for(lock, kPeriod, [this] { return ends_; });) {
    lock.unlock();
    const Clock::time_point now = Clock::now();
    const int64_t waited_now = WaitedForCores();
    const double share = static_cast<double>(waited_now - waited) / static_cast<double>(std::chrono::nanoseconds(now - then).count());
    then = now;
    waited = waited_now;
    calm = share < kCalm ? calm + 1 : 0;
    if (share > kBusy) {
      KeepTeam();
    } else if (calm >= kCalmPeriods) {
      ReleaseTeam();
    }
    lock.lock();
  }
}

void SpinControl::KeepTeam() {
  if (team_.joinable()) return;
  team_wanted_ = true;
  try {
    team_ = std::thread([this] {
      // The region makes the team, which stays this thread's own, asleep, until the thread ends.
#pragma omp parallel num_threads(omp_get_num_procs() + 1)
      {
        // Not empty, or the compiler leaves the region out.
        asm volatile("");
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !team_wanted_; });
    });
  } catch (const std::system_error&) {
    team_wanted_ = false;  // no thread is to be had now
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

}  // namespace moonring::comm
