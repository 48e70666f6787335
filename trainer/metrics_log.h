#ifndef MOONRING_TRAINER_METRICS_LOG_H_
#define MOONRING_TRAINER_METRICS_LOG_H_

// What a run leaves to read, under LLaMA-Factory's and Transformers' names, numbers with all their
// digits:
//
//   trainer_log.jsonl    a line a logging step, as it comes: current_steps total_steps loss lr
//                        epoch percentage elapsed_time remaining_time ("H:MM:SS"), then grad_norm
//                        tokens tokens_per_second, mfu and mfu_causal where the device's peak rate
//                        is known, peak_memory_bytes and what else is given. Where tokens are
//                        told: LLaMA-Factory's throughput (tokens a second since the start) and
//                        total_tokens
//   trainer_state.json   Transformers' TrainerState: global_step, max_steps, epoch, log_history,
//                        ... Where tokens are told, log_history has num_input_tokens_seen
//   train_results.json   epoch, total_flos, train_loss, train_runtime, train_samples_per_second,
//                        train_steps_per_second, and rates of tokens that are asked for
//   eval_results.json    what an evaluation at the end gave; all_results.json has both
//
// Only one process writes a run's log: which one is its caller's business. A number that is NaN or
// infinite becomes null.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"
#include "trainer/durable_file.h"

namespace moonring::trainer {

struct MetricsLogOptions {
  std::string output_dir;  // must exist
  int64_t total_steps = 0;
  int64_t first_step = 0;    // steps already made, where a run goes on; times count from here
  int64_t first_tokens = 0;  // that these steps took
  double first_epoch = 0.0;  // epochs done after them
  bool keep = false;         // go on after the lines in the folder, up to first_step
  double num_train_epochs = 0.0;
  int64_t logging_steps = 1, eval_steps = 1, save_steps = 500, train_batch_size = 1;
  double flops_per_token =
      0.0;  // of a forward and a backward pass: total_flos is so many times the tokens
  bool tells_tokens = false;  // Transformers' include_num_input_tokens_seen
  // Further names in train_results.json: tokens a second, divided by this.
  std::map<std::string, double> token_rates;
  std::function<absl::Time()> clock = absl::Now;
};

// The numbers of one logging step; absent ones are not written.
struct StepRecord {
  int64_t step = 0;  // 1-based: steps made
  double epoch = 0.0;
  std::optional<double> loss, learning_rate, grad_norm;
  int64_t tokens = 0;  // that the run has seen so far
  // Seconds that what the run has computed so far takes at the devices' peak rate, with attention
  // counted as if every token saw all of its document, and halved.
  std::optional<double> seconds_at_peak, causal_seconds_at_peak;
  std::map<std::string, double> more;  // further metrics, by the names to write
};

// Since the line before.
struct Rates {
  double tokens_per_second = 0.0;
  std::optional<double> mfu, mfu_causal;  // seconds at the peak a second
};

// A step's line in words, for the terminal.
std::string Summary(const StepRecord& record, const Rates& rates);

class MetricsLog {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Create(MetricsLogOptions options);

  // Where the run stands, told at every step, logged or not: what the state and the end of the log
  // say of it.
  struct Standing {
    int64_t step = 0;  // steps made
    double epoch = 0.0;
    int64_t tokens = 0;
  };
  void Reach(Standing standing) { standing_ = standing; }

  // One line into trainer_log.jsonl, in the file when it returns. Not OK: why it is not; then it
  // waits, as those after it do, and is tried again at each of them, at WriteState and at Finish.
  // Reaches the record's step too.
  absl::Status Write(const StepRecord& record);
  // Of the last line, and that line itself.
  const Rates& rates() const { return rates_; }
  const std::string& last_line() const { return last_line_; }

  // trainer_state.json as of now, in output_dir or in an existing folder of a checkpoint.
  absl::Status WriteState() { return WriteState(options_.output_dir); }
  absl::Status WriteState(const std::string& folder);

  // The best checkpoint so far and its `metric`, for trainer_state.json under Transformers' names.
  // best_model_checkpoint is null where its folder does not exist: never saved, or removed.
  struct Best {
    double metric = 0.0;
    int64_t step = 0;
    std::string checkpoint;
  };
  void SetBest(Best best) { best_ = std::move(best); }

  // NAME_results.json, and the same beside what all_results.json has of this run.
  absl::Status WriteResults(const std::string& name, const std::map<std::string, double>& results);

  // The end of a run: its mean loss over all steps and the number of examples it saw. Writes what
  // WriteResults("train") does, and the state.
  absl::Status Finish(double train_loss, int64_t examples);

  // (step, value) of each record that had `key` (Transformers' names: loss, learning_rate,
  // grad_norm, ...), for plots.
  std::vector<std::pair<double, double>> Series(const std::string& key) const;

 private:
  MetricsLog(MetricsLogOptions options, LineAppender lines)
      : options_(std::move(options)), lines_(std::move(lines)) {}
  double SecondsSinceStart() const { return absl::ToDoubleSeconds(options_.clock() - start_); }
  double Flops() const { return options_.flops_per_token * static_cast<double>(standing_.tokens); }
  base::OrderedJson Line(const StepRecord& record);
  Rates RatesSinceLast(const StepRecord& record, double seconds) const;

  MetricsLogOptions options_;
  LineAppender lines_;
  absl::Time start_;
  Standing standing_;
  int64_t last_tokens_ = 0;  // at the last line
  double last_seconds_ = 0.0, last_at_peak_ = 0.0, last_causal_at_peak_ = 0.0;
  Rates rates_;
  std::string last_line_;
  std::optional<Best> best_;
  nlohmann::json results_;  // all of them
  nlohmann::json history_ = nlohmann::json::array();
};

// Seconds as Python's str(timedelta) has them: "0:01:05", "1 day, 0:00:00".
std::string ClockTime(double seconds);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_METRICS_LOG_H_
