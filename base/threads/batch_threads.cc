#include "base/threads/batch_threads.h"

#include <sched.h>

namespace moonring::base {
namespace {

constexpr int kCallingThread = 0;

bool SetPolicy(int policy) {
  const sched_param no_priority{};
  return sched_setscheduler(kCallingThread, policy, &no_priority) == 0;
}

}  // namespace

BatchThreads::BatchThreads()
    : changed_(sched_getscheduler(kCallingThread) == SCHED_OTHER && SetPolicy(SCHED_BATCH)) {}

BatchThreads::~BatchThreads() {
  if (changed_) SetPolicy(SCHED_OTHER);
}

}  // namespace moonring::base
