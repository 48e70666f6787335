#ifndef MOONRING_TRAINER_REPORTS_METRICS_LOG_H_
#define MOONRING_TRAINER_REPORTS_METRICS_LOG_H_

// Writes a run's log files, with the names of LLaMA-Factory and Transformers, and numbers with all
// their digits:
//
//   trainer_log.jsonl    one line per logging step, written immediately: current_steps total_steps
//                        loss lr epoch percentage elapsed_time remaining_time ("H:MM:SS"), then
//                        elapsed_seconds grad_norm tokens tokens_per_second (in steps), mfu and
//                        mfu_causal if the device's peak rate is known, peak_memory_bytes and
//                        further metrics. With tells_tokens also LLaMA-Factory's throughput (tokens
//                        per second since the start) and total_tokens
//   trainer_state.json   Transformers' TrainerState: global_step, max_steps, epoch, log_history,
//                        ... With tells_tokens, log_history has num_input_tokens_seen
//   train_results.json   epoch, total_flos, train_loss, train_runtime, train_samples_per_second,
//                        train_steps_per_second, and the rates in token_rates
//   eval_results.json    results of an evaluation at the end; all_results.json has both
//
// Only one process of a run may write these files; the caller chooses it. NaN and infinite numbers
// are written as null.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/text/fields.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"
#include "trainer/checkpoint/durable_file.h"

namespace moonring::trainer {

struct MetricsLogOptions {
  std::string output_dir;
  int64_t total_steps = 0;
  // Times are measured from the end of these steps.
  int64_t first_step = 0;
  int64_t first_tokens = 0;
  double first_epoch = 0.0;
  bool keep = false;  // keep the existing lines up to first_step
  // With keep: at most so many lines are kept. A run that ended after first_step has evaluated the
  // final model there; the resumed run evaluates it again.
  std::optional<int64_t> first_lines;
  double num_train_epochs = 0.0;
  int64_t logging_steps = 1, eval_steps = 1, save_steps = 500, train_batch_size = 1;
  double flops_per_token = 0.0;
  bool tells_tokens = false;  // Transformers' include_num_input_tokens_seen
  std::map<std::string, double> token_rates;
  std::function<absl::Time()> clock = absl::Now;

  static constexpr char kOfState[] = "for trainer_state.json";
  static constexpr std::tuple kFields = {
      base::Field{"dir", &MetricsLogOptions::output_dir, "the folder of the log, which must exist",
                  base::kRequired},
      base::Field{"total_steps", &MetricsLogOptions::total_steps, "", base::kRequired},
      base::Field{"num_train_epochs", &MetricsLogOptions::num_train_epochs, kOfState},
      base::Field{"logging_steps", &MetricsLogOptions::logging_steps, kOfState},
      base::Field{"save_steps", &MetricsLogOptions::save_steps, kOfState},
      base::Field{"train_batch_size", &MetricsLogOptions::train_batch_size, kOfState},
      base::Field{"flops_per_token", &MetricsLogOptions::flops_per_token,
                  "number of floating-point operations of a forward and backward for one token; "
                  "the value total_flos is this number times the tokens"},
      base::Field{"tells_tokens", &MetricsLogOptions::tells_tokens,
                  "whether log lines contain total_tokens and throughput, and log_history contains "
                  "num_input_tokens_seen"},
      base::Field{"token_rates", &MetricsLogOptions::token_rates,
                  "additional values for train_results.json, by name: each is the tokens per "
                  "second divided by this number"},
      base::Field{"first_step", &MetricsLogOptions::first_step,
                  "number of steps that an earlier run made, if the run is resumed; log lines up "
                  "to this step are kept"},
      base::Field{"first_tokens", &MetricsLogOptions::first_tokens,
                  "number of tokens in these steps"},
      base::Field{"first_epoch", &MetricsLogOptions::first_epoch,
                  "epochs that were finished after these steps"},
      base::Field{"first_lines", &MetricsLogOptions::first_lines,
                  "number of log lines to keep at most: the result of Log:lines() when the earlier "
                  "run's checkpoint was written. By default all lines up to first_step are kept"},
  };
};

// The numbers of one logging step. Optional numbers without a value are not written.
struct StepRecord {
  int64_t step = 0;  // number of steps made
  double epoch = 0.0;
  std::optional<double> loss, learning_rate, grad_norm;
  int64_t tokens = 0;  // of the run so far
  // Seconds that the process has spent in steps, without evaluations and saves; rates are per such
  // second. Absent: the time since Create.
  std::optional<double> step_seconds;
  // Time in seconds that the computation of the run so far would take at the devices' peak rate.
  // seconds_at_peak counts attention as if every token attended to its whole document;
  // causal_seconds_at_peak counts half of that attention.
  std::optional<double> seconds_at_peak, causal_seconds_at_peak;
  std::map<std::string, double> more;  // further metrics, by the names to write
};

// Rates since the previous line.
struct Rates {
  double tokens_per_second = 0.0;
  std::optional<double> mfu, mfu_causal;  // seconds at peak rate per second
};

// A one-line summary of a step, for the terminal.
std::string Summary(const StepRecord& record, const Rates& rates);

class MetricsLog {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Create(MetricsLogOptions options);

  // The run's progress, set at every step, logged or not; used for the state and for the final
  // results.
  struct Standing {
    int64_t step = 0;  // number of steps made
    double epoch = 0.0;
    int64_t tokens = 0;
  };
  void Reach(Standing standing) { standing_ = standing; }

  // Writes one line to trainer_log.jsonl; it is in the file on return. On an error, this line and
  // later ones are kept in memory, and written by the next Write, WriteState or Finish that
  // succeeds. Also sets the progress to the record's step.
  absl::Status Write(const StepRecord& record);
  // Number of lines so far, those kept of an earlier run included.
  int64_t lines() const { return static_cast<int64_t>(history_.size()); }
  // The rates and the text of the line that was written last.
  const Rates& rates() const { return rates_; }
  const std::string& last_line() const { return last_line_; }

  // Writes the current trainer_state.json to output_dir, or to an existing checkpoint folder.
  absl::Status WriteState() { return WriteState(options_.output_dir); }
  absl::Status WriteState(const std::string& folder);

  // The best checkpoint so far and its `metric`, for trainer_state.json. best_model_checkpoint is
  // null if the folder does not exist (never saved, or removed).
  struct Best {
    double metric = 0.0;
    int64_t step = 0;
    std::string checkpoint;
  };
  void SetBest(Best best) { best_ = std::move(best); }

  // Writes NAME_results.json, and merges the results into all_results.json.
  absl::Status WriteResults(const std::string& name, const std::map<std::string, double>& results);

  // Ends the training: writes train_results.json, with the mean loss over all steps and the number
  // of examples, and the state. Evaluations may still be written after it.
  absl::Status Finish(double train_loss, int64_t examples);
  // Ends the log: writes the last line, without loss, lr and tokens. Call it after Finish.
  absl::Status End(const std::map<std::string, double>& more = {});
  // The contents of train_results.json, once Finish has been called.
  const std::map<std::string, double>& train_results() const { return train_results_; }

  // (step, value) of each record with `key` (Transformers' names: loss, learning_rate, grad_norm,
  // ...), for plots.
  std::vector<std::pair<double, double>> Series(const std::string& key) const;

 private:
  MetricsLog(MetricsLogOptions options, LineAppender lines)
      : options_(std::move(options)), lines_(std::move(lines)) {}
  double SecondsSinceStart() const { return absl::ToDoubleSeconds(options_.clock() - start_); }
  double Flops() const { return options_.flops_per_token * static_cast<double>(standing_.tokens); }
  base::OrderedJson Line(const StepRecord& record);
  // Nothing if no time in steps has passed since the last line.
  std::optional<Rates> RatesSinceLast(const StepRecord& record, double seconds) const;

  MetricsLogOptions options_;
  LineAppender lines_;
  absl::Time start_;
  Standing standing_;
  int64_t last_tokens_ = 0;  // at the last line
  double last_seconds_ = 0.0, last_at_peak_ = 0.0, last_causal_at_peak_ = 0.0;
  Rates rates_;
  std::string last_line_;
  std::optional<Best> best_;
  nlohmann::json results_;  // contents of all_results.json
  std::map<std::string, double> train_results_;
  nlohmann::json history_ = nlohmann::json::array();
};

// Formats seconds like Python's str(timedelta): "0:01:05", "1 day, 0:00:00".
std::string ClockTime(double seconds);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_METRICS_LOG_H_
