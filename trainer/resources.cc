#include "trainer/resources.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace moonring::trainer {

int64_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux counts it in KiB
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  int64_t bytes = 0;
  for (std::string line; std::getline(status, line);) {
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "RssAnon: %" SCNd64, &kib) == 1 || std::sscanf(line.c_str(), "RssShmem: %" SCNd64, &kib) == 1) bytes += kib * 1024;
  }
  return bytes;
}

}  // namespace moonring::trainer
