#ifndef MOONRING_BASE_THREADS_PARALLEL_TASKS_H_
#define MOONRING_BASE_THREADS_PARALLEL_TASKS_H_

// Runs independent tasks of tensor work in parallel on the calling thread's intra-op threads
// (at::get_num_threads()).

#include <cstdint>
#include <functional>
#include <vector>

namespace moonring::base {

// Calls body(task) once for each task, the costliest first, each with one intra-op thread and
// without autograd. Tasks inherit the caller's MemoryScope, Confinement and trace. An exception of
// a body is rethrown.
void RunParallelTasks(const std::vector<double>& cost_of_task,
                      const std::function<void(int64_t task)>& body);

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_PARALLEL_TASKS_H_
