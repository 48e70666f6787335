#include "lua/report/give_way.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"

namespace moonring::lua {

void GiveWay() {
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    unsigned id = 0;
    if (absl::SimpleAtoi(thread.path().filename().string(), &id)) setpriority(PRIO_PROCESS, id, 19);
  }
  std::ofstream("/proc/self/oom_score_adj") << "1000\n";
}

}  // namespace moonring::lua
