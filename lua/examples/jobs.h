#ifndef MOONRING_LUA_EXAMPLES_JOBS_H_
#define MOONRING_LUA_EXAMPLES_JOBS_H_

// Fine-tuning jobs: a queue and worker threads. Each job runs in a separate runtime, and all jobs
// may only use files in one folder.
//
//   ROOT/jobs/ID/config.json   the requested configuration
//   ROOT/jobs/ID/output        the model, unless the configuration names another output_dir

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "lua/embed.h"

namespace moonring::examples {

struct JobsOptions {
  std::string root;
  int workers = 1;
  int threads = 0;  // LibTorch's threads for each job; 0: LibTorch's default
  int64_t memory =
      0;  // limit in bytes on tensors and the Lua heap, for each job and each check; 0: none
  size_t most_waiting = 100;
  size_t most_finished = 1000;  // most finished jobs in the list; the folders of older ones stay
  size_t most_checked = 4;      // configurations checked at the same time; each check opens its
                                // model
};

class Jobs {
 public:
  struct Added {
    int status = 202;  // HTTP status: 400 a wrong configuration, 403 a path outside of the root,
                       // 429 too many jobs are waiting or being checked, 500 no folder for it
    std::string id, error;
  };

  explicit Jobs(JobsOptions options);
  ~Jobs();  // cancels running jobs and waits for them
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // Adds a job to the queue. `configuration`: an object with configuration keys. It is checked
  // first, so that a job that could not start is refused.
  Added Add(const nlohmann::json& configuration);
  // Describes a job: { id, status: waiting | running | done | failed | cancelled, progress: the
  // last step, metrics: of the last evaluation, error }; null for an unknown id.
  nlohmann::json Describe(const std::string& id) const;
  nlohmann::json DescribeAll() const;
  bool Cancel(const std::string& id);  // false for an unknown id

 private:
  struct Job {
    std::string id, config, status = "waiting", error;
    nlohmann::json progress, metrics;
    bool cancelled = false;
    moonring_runtime* runtime = nullptr;  // null unless the job runs
    Jobs* jobs = nullptr;
  };
  void Work();
  void Run(const std::shared_ptr<Job>& job);
  void Finished(const Job& job);  // requires mutex_
  moonring_code Check(const std::string& config, std::string& error) const;
  moonring_options Options(Job* job, const char* const* roots) const;
  static void Progress(void* job, const char* json);
  static nlohmann::json Describe(const Job& job);

  const JobsOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::shared_ptr<Job>> jobs_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::deque<int> finished_;  // the oldest first
  size_t checked_ = 0;        // checks in progress
  int last_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace moonring::examples

#endif  // MOONRING_LUA_EXAMPLES_JOBS_H_
