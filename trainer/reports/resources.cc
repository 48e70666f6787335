#include "trainer/reports/resources.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace moonring::trainer {

int64_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux reports KiB
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t AnonymousBytes() {
  char text[4096] = {};  // called often, so one read, and only the two lines are parsed
  std::ifstream("/proc/self/status").read(text, sizeof(text) - 1);
  int64_t bytes = 0;
  for (const char* name : {"\nRssAnon:", "\nRssShmem:"}) {
    if (const char* at = std::strstr(text, name))
      bytes += std::strtoll(at + std::strlen(name), nullptr, 10) * 1024;
  }
  return bytes;
}

}  // namespace moonring::trainer
