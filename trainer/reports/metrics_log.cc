#include "trainer/reports/metrics_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "trainer/reports/resources.h"

namespace moonring::trainer {
namespace {

using base::OrderedJson;

std::string PathOf(const MetricsLogOptions& options, absl::string_view file) {
  return absl::StrCat(options.output_dir, "/", file);
}

constexpr std::string_view kBytes = "_bytes";  // names with this ending are written as integers

// Whether a checkpoint exists, or is the one that is being written in `folder`.
bool WillBeThere(const std::string& checkpoint, const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(checkpoint, ignored) || folder == checkpoint + ".partial";
}

template <typename Object>
void Put(Object& object, const std::string& name, double value) {
  if (std::string_view(name).ends_with(kBytes)) {
    object[name] = static_cast<int64_t>(value);
  } else {
    object[name] = value;
  }
}

std::string Pretty(const nlohmann::json& json) { return json.dump(2) + "\n"; }

// Fields of a line that Transformers' log_history does not have.
constexpr std::array<std::string_view, 12> kOfTheFile = {
    "current_steps",   "total_steps", "percentage", "elapsed_time",      "remaining_time",
    "elapsed_seconds", "throughput",  "tokens",     "tokens_per_second", "mfu",
    "mfu_causal",      "peak_memory_bytes"};

// The name in log_history of a field of a line.
std::string HistoryName(const std::string& name) {
  if (name == "lr") return "learning_rate";
  return name == "total_tokens" ? "num_input_tokens_seen" : name;
}

// The lines of an earlier run up to first_step, and their contents under Transformers' names.
absl::StatusOr<std::pair<std::string, nlohmann::json>> EarlierLines(
    const std::string& path, const MetricsLogOptions& options) {
  std::string kept;
  nlohmann::json history = nlohmann::json::array();
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  std::vector<std::string> lines = absl::StrSplit(contents, '\n');
  lines.pop_back();  // after the last line feed: empty, or an incomplete line of a killed run
  for (const std::string& line : lines) {
    const nlohmann::json read = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!read.is_object() || !read.contains("current_steps") ||
        !read["current_steps"].is_number_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a line is not one of a training log: ", line.substr(0, 80)));
    }
    if (read["current_steps"].get<int64_t>() > options.first_step || !read.contains("tokens"))
      continue;  // a line without tokens is Finish's, which is written again
    if (static_cast<int64_t>(history.size()) >= options.first_lines.value_or(INT64_MAX)) break;
    absl::StrAppend(&kept, line, "\n");
    nlohmann::json entry = {{"step", read["current_steps"]}};
    for (const auto& [name, value] : read.items()) {
      if (std::find(kOfTheFile.begin(), kOfTheFile.end(), name) != kOfTheFile.end()) continue;
      entry[HistoryName(name)] = value;
    }
    history.push_back(std::move(entry));
  }
  return std::pair{std::move(kept), std::move(history)};
}

}  // namespace

std::string ClockTime(double seconds) {
  const int64_t whole = std::isfinite(seconds) ? static_cast<int64_t>(std::max(0.0, seconds)) : 0;
  const int64_t days = whole / 86400;
  const std::string clock =
      absl::StrFormat("%d:%02d:%02d", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  if (days == 0) return clock;
  return absl::StrCat(days, days == 1 ? " day, " : " days, ", clock);
}

std::string Summary(const StepRecord& record, const Rates& rates) {
  std::string text;
  if (record.loss) absl::StrAppendFormat(&text, "loss %.4f  ", *record.loss);
  if (record.grad_norm) absl::StrAppendFormat(&text, "grad_norm %.4g  ", *record.grad_norm);
  if (record.learning_rate) absl::StrAppendFormat(&text, "lr %.3g  ", *record.learning_rate);
  absl::StrAppendFormat(&text, "epoch %.2f  %.*f tokens/s", record.epoch,
                        rates.tokens_per_second < 100 ? 2 : 0, rates.tokens_per_second);
  if (rates.mfu) absl::StrAppendFormat(&text, "  mfu %.1f %%", 100 * *rates.mfu);
  if (rates.mfu_causal) absl::StrAppendFormat(&text, " (causal %.1f %%)", 100 * *rates.mfu_causal);
  for (const auto& [name, value] : record.more) {
    if (const std::string_view what = name; what.ends_with(kBytes)) {
      absl::StrAppendFormat(&text, "  %s %.2f GiB", what.substr(0, what.size() - kBytes.size()),
                            value / (int64_t{1} << 30));
    } else if (what.find('/') == std::string_view::npos ||
               what == "rewards/margins") {  // others are only written to the file
      absl::StrAppendFormat(&text, "  %s %.4g", name, value);
    }
  }
  return text;
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Create(MetricsLogOptions options) {
  if (options.total_steps < 0 || options.first_step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.metrics_log: total_steps ",
                                                   options.total_steps, ", first_step ",
                                                   options.first_step, ", expected 0 or more"));
  }
  const std::string path = PathOf(options, "trainer_log.jsonl");
  nlohmann::json history = nlohmann::json::array();
  if (options.keep) {
    auto earlier = EarlierLines(path, options);
    if (earlier.ok()) {
      RETURN_IF_ERROR(base::WriteWhole(path, earlier->first), "trainer.metrics_log");
      history = std::move(earlier->second);
    } else if (!absl::IsNotFound(earlier.status())) {
      return base::WithContext(earlier.status(), "trainer.metrics_log");
    }
  }
  ASSIGN_OR_RETURN(LineAppender lines, LineAppender::Open(path, options.keep),
                   "trainer.metrics_log");
  std::unique_ptr<MetricsLog> log(new MetricsLog(std::move(options), std::move(lines)));
  log->history_ = std::move(history);
  log->start_ = log->options_.clock();
  log->standing_ = {log->options_.first_step, log->options_.first_epoch,
                    log->options_.first_tokens};
  log->last_tokens_ = log->options_.first_tokens;
  return log;
}

std::optional<Rates> MetricsLog::RatesSinceLast(const StepRecord& record, double seconds) const {
  const double interval = seconds - last_seconds_;
  if (interval <= 0.0) return std::nullopt;
  Rates rates{.tokens_per_second = static_cast<double>(record.tokens - last_tokens_) / interval};
  if (record.seconds_at_peak) rates.mfu = (*record.seconds_at_peak - last_at_peak_) / interval;
  if (record.causal_seconds_at_peak)
    rates.mfu_causal = (*record.causal_seconds_at_peak - last_causal_at_peak_) / interval;
  return rates;
}

OrderedJson MetricsLog::Line(const StepRecord& record) {
  const double seconds = SecondsSinceStart();
  const int64_t made = record.step - options_.first_step;
  const double remaining = made > 0 ? seconds / static_cast<double>(made) *
                                          static_cast<double>(options_.total_steps - record.step)
                                    : 0.0;
  const double in_steps = record.step_seconds.value_or(seconds);
  const std::optional<Rates> rates = RatesSinceLast(record, in_steps);
  rates_ = rates.value_or(Rates{});
  OrderedJson line = {{"current_steps", record.step}, {"total_steps", options_.total_steps}};
  if (record.loss) line["loss"] = *record.loss;
  if (record.learning_rate) line["lr"] = *record.learning_rate;
  line["epoch"] = record.epoch;
  const double share = options_.total_steps > 0 ? static_cast<double>(record.step) /
                                                      static_cast<double>(options_.total_steps)
                                                : 1.0;
  line["percentage"] = std::round(share * 10000.0) / 100.0;
  line["elapsed_time"] = ClockTime(seconds);
  line["remaining_time"] = ClockTime(remaining);
  line["elapsed_seconds"] = std::round(seconds * 1000.0) / 1000.0;
  if (record.grad_norm) line["grad_norm"] = *record.grad_norm;
  line["tokens"] = record.tokens;
  if (rates) line["tokens_per_second"] = rates->tokens_per_second;
  if (rates_.mfu) line["mfu"] = *rates_.mfu;
  if (rates_.mfu_causal) line["mfu_causal"] = *rates_.mfu_causal;
  if (options_.tells_tokens) {
    const auto since_start = static_cast<double>(record.tokens - options_.first_tokens);
    line["throughput"] = std::round(100.0 * since_start / std::max(seconds, 1e-9)) / 100.0;
    line["total_tokens"] = record.tokens;
  }
  line["peak_memory_bytes"] = PeakResidentBytes();
  for (const auto& [name, value] : record.more) Put(line, name, value);
  last_seconds_ = in_steps;
  last_tokens_ = record.tokens;
  last_at_peak_ = record.seconds_at_peak.value_or(0.0);
  last_causal_at_peak_ = record.causal_seconds_at_peak.value_or(0.0);
  return line;
}

absl::Status MetricsLog::Write(const StepRecord& record) {
  nlohmann::json entry = {{"step", record.step}, {"epoch", record.epoch}};
  if (record.loss) entry["loss"] = *record.loss;
  if (record.learning_rate) entry["learning_rate"] = *record.learning_rate;
  if (record.grad_norm) entry["grad_norm"] = *record.grad_norm;
  if (options_.tells_tokens) entry["num_input_tokens_seen"] = record.tokens;
  for (const auto& [name, value] : record.more) Put(entry, name, value);
  history_.push_back(std::move(entry));
  Reach({record.step, record.epoch, record.tokens});
  last_line_ = Line(record).dump();
  return base::WithContext(lines_.Append(last_line_), "trainer.metrics_log");
}

absl::Status MetricsLog::WriteState(const std::string& folder) {
  (void)lines_.Flush();  // an error was reported when the lines were written
  const nlohmann::json state = {
      {"best_global_step", best_ ? nlohmann::json(best_->step) : nlohmann::json()},
      {"best_metric", best_ ? nlohmann::json(best_->metric) : nlohmann::json()},
      {"best_model_checkpoint", best_ && WillBeThere(best_->checkpoint, folder)
                                    ? nlohmann::json(best_->checkpoint)
                                    : nlohmann::json()},
      {"epoch", standing_.epoch},
      {"eval_steps", options_.eval_steps},
      {"global_step", standing_.step},
      {"is_hyper_param_search", false},
      {"is_local_process_zero", true},
      {"is_world_process_zero", true},
      {"log_history", history_},
      {"logging_steps", options_.logging_steps},
      {"max_steps", options_.total_steps},
      {"num_input_tokens_seen", standing_.tokens},
      {"num_train_epochs", static_cast<int64_t>(std::ceil(options_.num_train_epochs))},
      {"save_steps", options_.save_steps},
      {"stateful_callbacks", nlohmann::json::object()},
      {"total_flos", Flops()},
      {"train_batch_size", options_.train_batch_size},
      {"trial_name", nullptr},
      {"trial_params", nullptr}};
  return base::WithContext(
      base::WriteWhole(absl::StrCat(folder, "/trainer_state.json"), Pretty(state)),
      "trainer.metrics_log");
}

absl::Status MetricsLog::WriteResults(const std::string& name,
                                      const std::map<std::string, double>& results) {
  const std::string all = PathOf(options_, "all_results.json");
  if (results_.is_null()) {
    results_ = nlohmann::json::object();
    if (const auto earlier = ReadFile(all); options_.keep && earlier.ok()) {
      nlohmann::json read = nlohmann::json::parse(*earlier, nullptr, /*allow_exceptions=*/false);
      if (read.is_object()) results_ = std::move(read);
    }
  }
  nlohmann::json mine = nlohmann::json::object();
  for (const auto& [key, value] : results) Put(mine, key, value);
  results_.update(mine);
  RETURN_IF_ERROR(
      base::WriteWhole(PathOf(options_, absl::StrCat(name, "_results.json")), Pretty(mine)),
      "trainer.metrics_log");
  return base::WithContext(base::WriteWhole(all, Pretty(results_)), "trainer.metrics_log");
}

absl::Status MetricsLog::Finish(double train_loss, int64_t examples) {
  const double seconds = std::max(SecondsSinceStart(), 1e-9);
  const double steps = static_cast<double>(standing_.step - options_.first_step);
  std::map<std::string, double> results = {
      {"epoch", standing_.epoch},
      {"total_flos", Flops()},
      {"train_loss", train_loss},
      {"train_runtime", seconds},
      {"train_samples_per_second", static_cast<double>(examples) / seconds},
      {"train_steps_per_second", steps / seconds}};
  const auto tokens = static_cast<double>(standing_.tokens - options_.first_tokens);
  for (const auto& [name, divisor] : options_.token_rates)
    results[name] = tokens / seconds / divisor;
  train_results_ = results;
  nlohmann::json entry = results;
  entry["step"] = standing_.step;
  if (options_.tells_tokens) entry["num_input_tokens_seen"] = standing_.tokens;
  history_.push_back(std::move(entry));
  RETURN_IF_ERROR(WriteResults("train", results));
  return WriteState();
}

absl::Status MetricsLog::End(const std::map<std::string, double>& more) {
  OrderedJson line = {{"current_steps", standing_.step},
                      {"total_steps", options_.total_steps},
                      {"epoch", standing_.epoch}};
  const double total = static_cast<double>(options_.total_steps);
  line["percentage"] =
      total > 0 ? std::round(1e4 * static_cast<double>(standing_.step) / total) / 100.0 : 100.0;
  const auto runtime = train_results_.find("train_runtime");
  line["elapsed_time"] =
      ClockTime(runtime == train_results_.end() ? SecondsSinceStart() : runtime->second);
  line["remaining_time"] = ClockTime(0.0);
  for (const auto& [name, value] : more) Put(line, name, value);
  return base::WithContext(lines_.Append(line.dump()), "trainer.metrics_log");
}

std::vector<std::pair<double, double>> MetricsLog::Series(const std::string& key) const {
  std::vector<std::pair<double, double>> series;
  for (const nlohmann::json& entry : history_) {
    if (!entry.contains(key)) continue;
    series.emplace_back(entry["step"].get<double>(),
                        entry[key].is_number() ? entry[key].get<double>() : std::nan(""));
  }
  return series;
}

}  // namespace moonring::trainer
