#include "base/threads/parallel_tasks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status/torch_status.h"

namespace moonring::base {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParallelTasksTest : public ::testing::TestWithParam<int> {
 protected:
  ParallelTasksTest() : threads_(at::get_num_threads()) { at::set_num_threads(GetParam()); }
  ~ParallelTasksTest() override { at::set_num_threads(threads_); }

  int threads_;
};

TEST_P(ParallelTasksTest, EachRunsOnce) {
  for (const int64_t tasks : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> runs(tasks);
    RunParallelTasks(std::vector<double>(tasks, 1.0), [&](int64_t task) { ++runs[task]; });
    for (int64_t task = 0; task < tasks; ++task)
      EXPECT_EQ(runs[task], 1) << task << " of " << tasks;
  }
}

TEST_P(ParallelTasksTest, TheCostliestStartFirst) {
  std::mutex mutex;
  std::vector<int64_t> started;
  RunParallelTasks({1.0, 8.0, 3.0, 8.0, 0.0}, [&](int64_t task) {
    const std::lock_guard lock(mutex);
    started.push_back(task);
  });
  ASSERT_EQ(started.size(), 5u);
  if (GetParam() == 1) {
    EXPECT_THAT(started, ElementsAre(1, 3, 2, 0, 4));
  }
  std::sort(started.begin(), started.end());
  EXPECT_THAT(started, ElementsAre(0, 1, 2, 3, 4));
}

// Kernels that a task calls use no further threads and no autograd, whatever the settings of the
// calling thread.
TEST_P(ParallelTasksTest, BodiesRunAloneAndWithoutAutograd) {
  at::AutoGradMode enable(true);
  const at::Tensor weight = at::randn({40, 40}).requires_grad_(), x = at::randn({40, 40});
  std::vector<at::Tensor> products(4);
  std::vector<int> alone(4), records(4);
  RunParallelTasks({1, 1, 1, 1}, [&](int64_t task) {
    alone[task] = at::in_parallel_region() || at::get_num_threads() == 1;
    products[task] = at::mm(x, weight);
    records[task] = products[task].requires_grad();
  });
  EXPECT_THAT(alone, Each(1));
  EXPECT_THAT(records, Each(0));
  for (const at::Tensor& product : products) EXPECT_TRUE(at::equal(product, products[0]));
  EXPECT_TRUE(at::mm(x, weight).requires_grad());
  EXPECT_EQ(at::get_num_threads(), GetParam());
}

// As many tasks run at the same time as there are threads. Each of two tasks waits for the other;
// if they ran one after another, they would wait until a limit of two minutes.
TEST_P(ParallelTasksTest, TasksRunSideBySide) {
  if (GetParam() == 1) GTEST_SKIP() << "one thread";
  std::atomic<int> started = 0, met = 0;
  RunParallelTasks({1, 1}, [&](int64_t) {
    ++started;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (started < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    met += started == 2;
  });
  EXPECT_EQ(met, 2);
}

TEST_P(ParallelTasksTest, ExceptionsComeThrough) {
  try {
    RunParallelTasks({1, 2, 3}, [&](int64_t task) {
      if (task == 1) throw StatusError(absl::UnavailableError("rank 3 is gone"));
    });
    FAIL() << "nothing was thrown";
  } catch (const StatusError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 3 is gone"));
  }
  EXPECT_THROW(RunParallelTasks({1}, [](int64_t) { TORCH_CHECK(false, "a shape"); }), c10::Error);
  std::atomic<int> runs = 0;  // the next call works
  RunParallelTasks({1, 1, 1}, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 3);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTasksTest, ::testing::Values(1, 2),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace moonring::base
