#include "lua/report/give_way.h"

#include <sys/resource.h>

#include <fstream>

namespace moonring::lua {

void GiveWay() {
  setpriority(PRIO_PROCESS, 0, 19);
  std::ofstream("/proc/self/oom_score_adj") << "1000\n";
}

}  // namespace moonring::lua
