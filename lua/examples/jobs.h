#ifndef MOONRING_LUA_EXAMPLES_JOBS_H_
#define MOONRING_LUA_EXAMPLES_JOBS_H_

// Fine-tuning jobs: a queue, and threads that take from it. Each job has a runtime of its own,
// confined to one folder for all.
//
//   ROOT/jobs/ID/config.json   what was asked for
//   ROOT/jobs/ID/output        where the model goes, unless the configuration names another
//   output_dir

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
  int threads = 0;  // LibTorch's, of each job; 0: LibTorch's own choice
  int64_t memory =
      0;  // bytes of tensors and of Lua's heap, of each job and each check; 0: any number
  size_t most_waiting = 100;
  size_t most_finished = 1000;  // that can be asked for; of older ones the folder is left
  size_t most_checked = 4;      // configurations at a time: each opens its model
};

class Jobs {
 public:
  struct Added {
    int status = 202;  // of HTTP: 400 a wrong configuration, 403 a path outside of the root, 429
                       // too many jobs wait, or are checked, 500 no folder for it
    std::string id, error;
  };

  explicit Jobs(JobsOptions options);
  ~Jobs();  // cancels what runs, and waits for it
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // `configuration`: an object of a configuration's keys. It is checked here, so that a job that
  // could not begin is refused.
  Added Add(const nlohmann::json& configuration);
  // { id, status: waiting | running | done | failed | cancelled, progress: the last step, metrics:
  // of the last evaluation, error }; null where there is none.
  nlohmann::json Describe(const std::string& id) const;
  nlohmann::json DescribeAll() const;
  bool Cancel(const std::string& id);  // false where there is none

 private:
  struct Job {
    std::string id, config, status = "waiting", error;
    nlohmann::json progress, metrics;
    bool cancelled = false;
    moonring_runtime* runtime = nullptr;  // while it runs
    Jobs* jobs = nullptr;
  };
  void Work();
  void Run(const std::shared_ptr<Job>& job);
  void Finished(const Job& job);  // under mutex_
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
  size_t checked_ = 0;        // now
  int last_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace moonring::examples

#endif  // MOONRING_LUA_EXAMPLES_JOBS_H_
