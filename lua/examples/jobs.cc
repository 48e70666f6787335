#include "lua/examples/jobs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace moonring::examples {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A script that checks a configuration before its job starts. It runs in the sandbox, so that paths
// outside of the root are refused too.
constexpr char kCheck[] = R"lua(
  local moonring = require "moonring"
  function check(path)
    local config = moonring.config.load(path, {})
    require("moonring.run.checks").train(config)
    -- A runtime refuses it where it is not enough by itself.
    local ranks = require("moonring.choices.compute").ranks(config)
    moonring.launch(config.sequence_parallel_size, ranks, config.max_restarts)
    local template = require("moonring.data.configured_template").of(config)
    require("moonring.data.templates").find(template)
    moonring.policy.open(config)
  end
)lua";

int Number(const std::string& id) {
  return id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != std::string::npos
             ? 0
             : std::atoi(id.c_str());
}

// Shortens an error for network clients: removes the status word, and the line in Moonring's
// script.
std::string Words(const std::string& error) {
  for (const char* word :
       {"INVALID_ARGUMENT: ", "NOT_FOUND: ", "PERMISSION_DENIED: ", "FAILED_PRECONDITION: "}) {
    if (const size_t at = error.find(word); at != std::string::npos)
      return error.substr(at + std::string(word).size());
  }
  return error;
}

}  // namespace

Jobs::Jobs(JobsOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { Work(); });
}

Jobs::~Jobs() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    for (auto& [number, job] : jobs_) moonring_cancel(job->runtime, 0);
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

moonring_options Jobs::Options(Job* job, const char* const* roots) const {
  moonring_options options = {};
  options.size = sizeof(options);
  options.roots = roots;
  options.root_count = 1;
  options.threads = options_.threads;
  options.memory = options_.memory;
  options.progress = job == nullptr ? nullptr : &Progress;
  options.context = job;
  return options;
}

moonring_code Jobs::Check(const std::string& config, std::string& error) const {
  const char* roots[] = {options_.root.c_str()};
  const moonring_options options = Options(nullptr, roots);
  moonring_runtime* runtime = nullptr;
  char why[1024];
  moonring_code code = moonring_create(&options, &runtime, why, sizeof(why));
  if (code != MOONRING_OK) {
    error = why;
    return code;
  }
  const std::unique_ptr<moonring_runtime, decltype(&moonring_destroy)> owner(runtime,
                                                                             &moonring_destroy);
  code = moonring_run_string(runtime, kCheck, "check", 0, nullptr);
  if (code == MOONRING_OK)
    code = moonring_call(runtime, "check", json(config).dump().c_str(), nullptr);
  error = moonring_last_error(runtime);
  return code;
}

Jobs::Added Jobs::Add(const json& configuration) {
  if (!configuration.is_object())
    return {400, "", "expected a JSON object of a configuration's keys"};
  struct Checking {  // counts this check; its destructor also runs after an exception
    Jobs* jobs;
    ~Checking() {
      const std::lock_guard<std::mutex> lock(jobs->mutex_);
      --jobs->checked_;
    }
  };
  std::unique_ptr<Checking> checking;
  auto job = std::make_shared<Job>();
  job->jobs = this;
  const fs::path jobs = fs::path(options_.root) / "jobs";
  fs::path folder;
  int number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= options_.most_waiting) return {429, "", "too many jobs are waiting"};
    if (checked_ >= options_.most_checked)
      return {429, "", "too many configurations are being checked: try again"};
    ++checked_;
    checking.reset(new Checking{this});
    std::error_code failed;
    fs::create_directories(jobs, failed);
    do {  // find a number that no job has had, even in an earlier process
      number = ++last_;
      folder = jobs / std::to_string(number);
    } while (!failed && !fs::create_directory(folder, failed));
    if (failed) return {500, "", "the job's folder cannot be made: " + failed.message()};
  }
  job->id = std::to_string(number);
  job->config = folder / "config.json";
  json whole = configuration;
  if (!whole.contains("output_dir")) whole["output_dir"] = (folder / "output").string();
  std::ofstream(job->config) << whole.dump(2) << "\n";
  std::string error;
  const moonring_code code = Check(job->config, error);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (code != MOONRING_OK) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return {code == MOONRING_PERMISSION_DENIED ? 403 : 400, "", Words(error)};
  }
  jobs_[number] = job;
  waiting_.push_back(job);
  changed_.notify_one();
  return {202, job->id, ""};
}

void Jobs::Work() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      job = waiting_.front();
      waiting_.pop_front();
      if (job->cancelled) continue;
      job->status = "running";
    }
    Run(job);
  }
}

void Jobs::Run(const std::shared_ptr<Job>& job) {
  const char* roots[] = {options_.root.c_str()};
  const moonring_options options = Options(job.get(), roots);
  moonring_runtime* runtime = nullptr;
  char why[1024] = "";
  moonring_code code = moonring_create(&options, &runtime, why, sizeof(why));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job->runtime = runtime;
    if (job->cancelled || stop_) moonring_cancel(runtime, 0);
  }
  const char* words[] = {job->config.c_str()};
  if (code == MOONRING_OK) code = moonring_run_command(runtime, "train", 1, words);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job->status = code == MOONRING_OK          ? "done"
                  : code == MOONRING_CANCELLED ? "cancelled"
                                               : "failed";
    job->error = code == MOONRING_OK  ? ""
                 : runtime == nullptr ? why
                                      : Words(moonring_last_error(runtime));
    job->runtime = nullptr;
    Finished(*job);
  }
  moonring_destroy(runtime);
}

void Jobs::Progress(void* context, const char* text) {
  auto* job = static_cast<Job*>(context);
  json message = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return;
  const std::lock_guard<std::mutex> lock(job->jobs->mutex_);
  if (message.value("event", "") == "evaluation") {
    job->metrics = message.value("metrics", json());
  } else {
    job->progress = std::move(message);
  }
}

void Jobs::Finished(const Job& job) {
  finished_.push_back(Number(job.id));
  if (finished_.size() <= options_.most_finished) return;
  jobs_.erase(finished_.front());
  finished_.pop_front();
}

bool Jobs::Cancel(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(Number(id));
  if (found == jobs_.end()) return false;
  const std::shared_ptr<Job> kept = found->second;
  Job& job = *kept;
  job.cancelled = true;
  if (job.status == "waiting") {
    job.status = "cancelled";
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), kept), waiting_.end());
    Finished(job);
  }
  moonring_cancel(job.runtime, 0);
  return true;
}

json Jobs::Describe(const Job& job) {
  json described = {{"id", job.id}, {"status", job.status}};
  if (!job.progress.is_null()) described["progress"] = job.progress;
  if (!job.metrics.is_null()) described["metrics"] = job.metrics;
  if (!job.error.empty()) described["error"] = job.error;
  return described;
}

json Jobs::Describe(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(Number(id));
  return found == jobs_.end() ? json() : Describe(*found->second);
}

json Jobs::DescribeAll() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  json all = json::array();
  for (const auto& [number, job] : jobs_) all.push_back(Describe(*job));
  return all;
}

}  // namespace moonring::examples
