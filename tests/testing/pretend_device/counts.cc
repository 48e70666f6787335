#include "tests/testing/pretend_device/counts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace moonring::pretend {
namespace {

struct Shared {
  std::mutex mutex;
  Counts counts;
  std::map<std::string, HeldBlocks> at_peak;
};

// Never destroyed, because tensors are freed until the process's last moment.
Shared& All() {
  static auto* const shared = new Shared;
  return *shared;
}

nlohmann::json AsJson(const Copies& copies) {
  return {{"count", copies.count},
          {"bytes", copies.bytes},
          {"blocking", copies.blocking},
          {"blocking_bytes", copies.blocking_bytes},
          {"largest_blocking", copies.largest_blocking}};
}

// Returns the blocks as JSON, the largest first.
nlohmann::json AsJson(const std::map<std::string, HeldBlocks>& held) {
  std::vector<std::pair<std::string, HeldBlocks>> sorted(held.begin(), held.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [what, blocks] : sorted) {
    list.push_back({{"what", what}, {"count", blocks.count}, {"bytes", blocks.bytes}});
  }
  return list;
}

nlohmann::json AsJson(const std::map<Alike, Calls>& work) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [alike, of] : work) {
    const auto& [name, shapes, by] = alike;
    list.push_back({{"operator", name},
                    {"shapes", shapes},
                    {"by", by},
                    {"calls", of.calls},
                    {"read", of.read},
                    {"written", of.written},
                    {"flops", of.flops}});
  }
  return list;
}

}  // namespace

bool WantsReport() {
  static const bool wants = std::getenv("PRETEND_DEVICE_REPORT") != nullptr;
  return wants;
}

void NotePeak(std::map<std::string, HeldBlocks> held) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().at_peak = std::move(held);
}

void Report() {
  const char* const file = std::getenv("PRETEND_DEVICE_REPORT");
  if (file == nullptr) return;
  const char* const rank = std::getenv("RANK");
  const Counts counts = CountsNow();
  if (counts.allocations == 0) return;  // the process that starts ranks
  std::ofstream(std::string(file) + "." + (rank == nullptr ? "0" : rank))
      << nlohmann::json({{"kernels", counts.kernels},
                         {"all_kernels", counts.Kernels()},
                         {"synchronizations", counts.synchronizations},
                         {"all_synchronizations", counts.Synchronizations()},
                         {"to_device", AsJson(counts.to_device)},
                         {"to_host", AsJson(counts.to_host)},
                         {"held_bytes", counts.held_bytes},
                         {"peak_bytes", counts.peak_bytes},
                         {"work", AsJson(counts.work)},
                         {"at_peak", AsJson(All().at_peak)},
                         {"allocations", counts.allocations}})
             .dump(1)
      << "\n";
}

namespace {

thread_local int uncounted = 0;

int64_t Sum(const std::map<std::string, int64_t>& of) {
  return std::accumulate(of.begin(), of.end(), int64_t{0},
                         [](int64_t sum, const auto& each) { return sum + each.second; });
}

void Count(Copies& copies, int64_t bytes, bool blocking) {
  ++copies.count;
  copies.bytes += bytes;
  if (!blocking) return;
  ++copies.blocking;
  copies.blocking_bytes += bytes;
  copies.largest_blocking = std::max(copies.largest_blocking, bytes);
}

}  // namespace

int64_t Counts::Kernels() const { return Sum(kernels); }
int64_t Counts::Synchronizations() const { return Sum(synchronizations); }

Counts CountsNow() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return All().counts;
}

void ResetCounts() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  const int64_t held = All().counts.held_bytes;
  All().counts = {};
  All().counts.held_bytes = All().counts.peak_bytes = held;
}

Uncounted::Uncounted() { ++uncounted; }
Uncounted::~Uncounted() { --uncounted; }

void CountKernel(const std::string& name) {
  if (uncounted > 0) return;
  const std::lock_guard<std::mutex> lock(All().mutex);
  ++All().counts.kernels[name];
}

void CountWork(const std::string& name, const Work& work) {
  if (uncounted > 0) return;
  const std::lock_guard<std::mutex> lock(All().mutex);
  Calls& alike = All().counts.work[{name, work.shapes, work.by}];
  ++alike.calls;
  alike.read += work.read;
  alike.written += work.written;
  alike.flops += work.flops;
}

void CountSynchronization(const std::string& cause) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  ++All().counts.synchronizations[cause];
}

void CountToDevice(int64_t bytes, bool blocking) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  Count(All().counts.to_device, bytes, blocking);
}

void CountToHost(int64_t bytes, bool blocking) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  Count(All().counts.to_host, bytes, blocking);
}

void CountBytes(int64_t change) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  Counts& counts = All().counts;
  counts.held_bytes += change;
  counts.peak_bytes = std::max(counts.peak_bytes, counts.held_bytes);
  if (change > 0) ++counts.allocations;
}

}  // namespace moonring::pretend

// Replaces the C library's _Exit in a program that links this file, in order to write the report.
// The host program ends by _Exit, which skips atexit handlers and destructors.
extern "C" void _Exit(int code) {
  moonring::pretend::Report();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
