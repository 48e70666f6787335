#include "base/threads/parallel_tasks.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "base/files/confinement.h"
#include "base/memory/memory_account.h"
#include "base/trace/recorder.h"

namespace moonring::base {

void RunParallelTasks(const std::vector<double>& cost_of_task,
                      const std::function<void(int64_t)>& body) {
  std::vector<int64_t> order(cost_of_task.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return cost_of_task[a] > cost_of_task[b]; });
  std::atomic<size_t> next = 0;
  const MemoryPart part = CurrentMemoryPart();
  const std::shared_ptr<Confinement> confined = CurrentConfinement();
  TraceRecorder* const trace = CurrentTrace();
  const auto work = [&](int64_t, int64_t) {
    const MemoryScope memory(part);
    const ConfinedScope confinement(confined);
    const TraceOnThread traced(trace);
    at::AutoDispatchBelowADInplaceOrView below_autograd;  // a worker has its own grad mode
    for (size_t i = next++; i < order.size(); i = next++) body(order[i]);
  };
  // The range has at least two elements: a range of one would run outside a parallel region, and
  // there each operator of a task would use several threads.
  at::parallel_for(0, std::max<int64_t>(2, at::get_num_threads()), 1, work);
}

}  // namespace moonring::base
