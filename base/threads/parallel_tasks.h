#ifndef MOONRING_BASE_THREADS_PARALLEL_TASKS_H_
#define MOONRING_BASE_THREADS_PARALLEL_TASKS_H_

// Independent pieces of tensor work over the intra-op threads of the calling thread
// (at::get_num_threads()).

#include <cstdint>
#include <functional>
#include <vector>

namespace moonring::base {

// Runs body(task) once for each task, the costliest first, each with one intra-op thread and
// without autograd; what it allocates counts as the caller's MemoryScope says, and what it does is
// in the caller's trace. An exception of a body comes through.
void RunParallelTasks(const std::vector<double>& cost_of_task,
                      const std::function<void(int64_t task)>& body);

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_PARALLEL_TASKS_H_
