#include "trainer/reports/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/ordered_json.h"
#include "base/text/visible_text.h"
#include "nlohmann/json.hpp"
#include "trainer/reports/metrics_log.h"
#include "trainer/reports/resources.h"

namespace moonring::trainer {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100), kSecond = absl::Seconds(1),
                         kSilence = absl::Seconds(30), kQuickPhase = absl::Milliseconds(400);
constexpr std::chrono::milliseconds kGlance(200);
constexpr size_t kRecentSteps = 32;
constexpr size_t kMostUnlogged = 10000;  // lines of a program that never calls KeepLog
constexpr double kGiB = static_cast<double>(int64_t{1} << 30);

constexpr char kCyan[] = "\x1b[36m", kDim[] = "\x1b[2m", kUsual[] = "\x1b[0m";

int TerminalColumns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Width of the bar in cells, which leaves most of the line to the numbers.
int BarCells(int columns) {
  if (columns >= 140) return 24;
  if (columns >= 110) return 12;
  return columns >= 80 ? 6 : 0;
}

// A bar with a resolution of an eighth of a cell.
std::string Bar(double share, int cells) {
  static constexpr const char* kPartial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::clamp(static_cast<int>(share * cells * 8), 0, cells * 8);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kPartial[eighths % 8];
  bar.append(cells - (eighths + 7) / 8, ' ');
  return bar;
}

std::string Rate(double rate) { return absl::StrFormat("%.*f", rate < 100 ? 2 : 0, rate); }

double Share(int64_t done, int64_t total) {
  return total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
}

}  // namespace

bool OnTerminal(int file) {
  const char* kind = std::getenv("TERM");
  return isatty(file) == 1 && kind != nullptr && absl::string_view(kind) != "dumb";
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.columns)
    options_.columns = [file = options_.file] { return TerminalColumns(file); };
  if (!options_.memory) options_.memory = ResidentBytes;
  if (options_.write_line && options_.kind == ProgressKind::kBar)
    options_.kind = ProgressKind::kPlain;
  start_ = stepped_ = written_ = options_.clock();
  const bool is_shown =
      options_.kind == ProgressKind::kBar || options_.kind == ProgressKind::kPlain;
  if (!options_.watches || !is_shown) return;
  try {
    watcher_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {  // without a thread, the bar is only redrawn at each step
  }
}

void Progress::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!closed_) {
    closing_.wait_for(lock, kGlance);
    if (closed_) return;
    lock.unlock();
    (void)base::TryTorch([this] { Tick(); });  // a failure to draw does not end the run
    lock.lock();
  }
}

void Progress::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    phases_.clear();
    if (open_ && training_.has_value()) {
      Draw();
      Write(options_.file, "\n");
      open_ = false;
    }
    Erase();
    training_.reset();
  }
  closing_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Progress::Train(TrainingProgress training) {
  const std::lock_guard<std::mutex> lock(mutex_);
  start_ = stepped_ = options_.clock();
  last_ = {.step = training.first_step, .tokens = training.first_tokens};
  tokens_ = {{absl::ZeroDuration(), training.first_tokens}};
  paused_ = absl::ZeroDuration();
  training_ = std::move(training);
  if (options_.kind == ProgressKind::kBar) Draw();
}

void Progress::EndTraining() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open_) {
    Draw();
    Write(options_.file, "\n");
    open_ = false;
  }
  training_.reset();
}

void Progress::Step(const StepProgress& step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!training_.has_value()) return;
  const absl::Time now = options_.clock();
  last_ = step;
  stepped_ = now;
  tokens_.emplace_back(now - start_ - Paused(), step.tokens);
  if (tokens_.size() > kRecentSteps) tokens_.pop_front();
  if (options_.kind == ProgressKind::kBar &&
      (now - drawn_ >= kRedraw || step.step == training_->total_steps))
    Draw();
  if (options_.kind != ProgressKind::kJson) return;
  base::OrderedJson line = {
      {"event", "step"}, {"step", step.step}, {"total_steps", training_->total_steps}};
  line["epoch"] = step.epoch;
  if (step.loss) line["loss"] = *step.loss;
  if (step.learning_rate) line["lr"] = *step.learning_rate;
  if (step.grad_norm) line["grad_norm"] = *step.grad_norm;
  line["tokens"] = step.tokens;
  line["tokens_per_second"] = TokensPerSecond();
  line["elapsed_seconds"] = absl::ToDoubleSeconds(now - start_);
  if (const auto left = SecondsLeft()) line["remaining_seconds"] = *left;
  line["memory_bytes"] = options_.memory();
  if (training_->memory_limit > 0) line["memory_limit_bytes"] = training_->memory_limit;
  WriteJson(line.dump());
}

void Progress::Report(int64_t step, absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!training_.has_value()) return;
  const std::string line = absl::StrCat("step ", step, "/", training_->total_steps, "  ", text,
                                        "  ", Timing(), "  ", Memory());
  if (options_.kind == ProgressKind::kPlain) {
    WriteLine(line);
  } else {
    Log(line);
  }
}

absl::Status Progress::KeepLog(const std::string& path, bool append) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ASSIGN_OR_RETURN(LineAppender log, LineAppender::Open(path, append));
  log_.emplace(std::move(log));
  for (const std::string& line : std::exchange(unlogged_, {})) Log(line);
  return absl::OkStatus();
}

void Progress::LogOnly(absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Log(text);
}

// Lines before KeepLog wait in memory. So do lines that a full disk refuses, in LineAppender.
void Progress::Log(absl::string_view text) {
  if (log_.has_value()) {
    (void)log_->Append(base::VisibleText(text));
  } else if (unlogged_.size() < kMostUnlogged) {
    unlogged_.emplace_back(text);
  }
}

void Progress::Line(absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool was_open = open_;
  Erase();
  WriteLine(text);
  if (was_open) Draw();
}

void Progress::Event(const std::string& json) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (options_.kind == ProgressKind::kJson) WriteJson(json);
}

void Progress::BeginPhase(std::string name, std::string unit,
                          std::shared_ptr<const base::WorkCount> count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phases_.push_back({std::move(name), std::move(unit), std::move(count), options_.clock()});
}

void Progress::EndPhase() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (phases_.empty()) return;
  const Phase phase = std::move(phases_.back());
  phases_.pop_back();
  const absl::Duration time = options_.clock() - phase.began;
  if (phases_.empty()) paused_ += time;
  const double seconds = absl::ToDoubleSeconds(time);
  const auto known = std::find_if(spent_.begin(), spent_.end(),
                                  [&](const auto& each) { return each.first == phase.name; });
  if (known == spent_.end()) {
    spent_.emplace_back(phase.name, seconds);
  } else {
    known->second += seconds;
  }
  if (options_.kind == ProgressKind::kJson) {
    const base::OrderedJson line = {{"event", "phase"}, {"name", phase.name}, {"seconds", seconds}};
    WriteJson(line.dump());
  }
  if (!open_) return;
  Erase();
  if (training_.has_value() || !phases_.empty()) Draw();
}

void Progress::Tick() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_ || (phases_.empty() && !training_.has_value())) return;
  const absl::Time now = options_.clock();
  if (options_.kind == ProgressKind::kBar) {
    const bool waits =
        phases_.empty() ? now - drawn_ < kSecond : now - phases_.back().began < kQuickPhase;
    if (!waits) Draw();
  } else if (options_.kind == ProgressKind::kPlain && now - written_ >= kSilence) {
    std::string text = phases_.empty()
                           ? absl::StrCat("step ", last_.step, "/", training_->total_steps)
                           : phases_.back().name;
    for (const Field& field : phases_.empty() ? StepFields() : PhaseFields())
      absl::StrAppend(&text, "  ", field.name, field.name.empty() ? "" : " ", field.value);
    WriteLine(text);
  }
}

// Time since Train that was spent in phases.
absl::Duration Progress::Paused() const {
  return phases_.empty() ? paused_ : paused_ + (options_.clock() - phases_.front().began);
}

// The time that the remaining steps take at the mean pace so far, evaluations and saves included.
// Between two steps it stands still: the time since the last step may belong to a long save, after
// which nothing would be left.
std::optional<double> Progress::SecondsLeft() const {
  const int64_t made = last_.step - training_->first_step;
  if (made <= 0) return std::nullopt;
  const double each = absl::ToDoubleSeconds(stepped_ - start_) / static_cast<double>(made);
  return each * static_cast<double>(training_->total_steps - last_.step);
}

double Progress::TokensPerSecond() const {
  const double seconds = absl::ToDoubleSeconds(tokens_.back().first - tokens_.front().first);
  const auto tokens = static_cast<double>(tokens_.back().second - tokens_.front().second);
  return seconds > 0.0 ? tokens / seconds : 0.0;
}

std::string Progress::Timing() const {
  const std::string so_far = ClockTime(absl::ToDoubleSeconds(options_.clock() - start_));
  const auto left = SecondsLeft();
  return left ? absl::StrCat(so_far, "<", ClockTime(*left)) : so_far;
}

std::string Progress::Memory() const {
  const std::string held = absl::StrFormat("%.1f", static_cast<double>(options_.memory()) / kGiB);
  const int64_t limit = training_->memory_limit;
  if (limit <= 0) return held + " GiB";
  return absl::StrFormat("%s/%.1f GiB", held, static_cast<double>(limit) / kGiB);
}

// The fields of the step line, the most important first.
std::vector<Progress::Field> Progress::StepFields() const {
  std::vector<Field> fields;
  const auto number = [&](const char* name, const std::optional<double>& value, auto format) {
    if (value) fields.push_back({name, absl::StrFormat(format, *value)});
  };
  number("loss", last_.loss, absl::ParsedFormat<'f'>("%.4f"));
  fields.push_back({"", Timing()});
  if (tokens_.size() > 1) fields.push_back({"", Rate(TokensPerSecond()) + " tokens/s"});
  number("lr", last_.learning_rate, absl::ParsedFormat<'g'>("%.3g"));
  number("grad_norm", last_.grad_norm, absl::ParsedFormat<'g'>("%.3g"));
  fields.push_back({"", Memory()});
  fields.push_back({"epoch", absl::StrFormat("%.2f", last_.epoch)});
  if (!training_->layout.empty()) fields.push_back({"", training_->layout});
  return fields;
}

std::vector<Progress::Field> Progress::PhaseFields() const {
  const Phase& phase = phases_.back();
  const double seconds = absl::ToDoubleSeconds(options_.clock() - phase.began);
  std::vector<Field> fields;
  std::string time = ClockTime(seconds);
  if (phase.count != nullptr) {
    const int64_t total = phase.count->total;
    const int64_t done =
        total > 0 ? std::min<int64_t>(phase.count->done, total) : phase.count->done.load();
    std::string counted = absl::StrCat(done);
    if (total > 0) absl::StrAppend(&counted, "/", total);
    fields.push_back({"", absl::StrCat(counted, " ", phase.unit)});
    if (done > 0 && total > 0) {
      const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
      absl::StrAppend(&time, "<", ClockTime(left));
    }
  }
  fields.push_back({"", time});
  return fields;
}

// Makes a line with as many fields as fit. One column stays free, because a full line would wrap
// and the next redraw would begin one line too low.
std::string Progress::Fitted(double share, const std::vector<Field>& fields) const {
  const int columns = options_.columns(), cells = BarCells(columns);
  int left = columns - 1;
  std::string line;
  const auto color = [&](const char* code) { return options_.colors ? code : ""; };
  if (share >= 0.0) {
    line = absl::StrFormat("%3d%%", static_cast<int>(share * 100));
    left -= static_cast<int>(line.size());
    if (cells > 0) {
      absl::StrAppend(&line, " |", color(kCyan), Bar(share, cells), color(kUsual), "|");
      left -= cells + 3;
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const std::string between = line.empty() ? "" : i == 0 ? " " : "  ";
    const auto wanted = static_cast<int>(between.size() + field.name.size() +
                                         (field.name.empty() ? 0 : 1) + field.value.size());
    if (wanted > left) break;
    left -= wanted;
    absl::StrAppend(&line, between);
    if (!field.name.empty()) absl::StrAppend(&line, color(kDim), field.name, color(kUsual), " ");
    absl::StrAppend(&line, field.value);
  }
  return line;
}

void Progress::Draw() {
  double share = -1.0;  // unknown
  std::vector<Field> fields;
  if (!phases_.empty()) {
    const Phase& phase = phases_.back();
    const int64_t total = phase.count == nullptr ? 0 : phase.count->total.load();
    if (total > 0) share = Share(phase.count->done, total);
    fields = PhaseFields();
    fields.insert(fields.begin(), {"", phase.name});
  } else if (training_.has_value()) {
    share = training_->total_steps > 0 ? Share(last_.step, training_->total_steps) : 1.0;
    fields = StepFields();
    fields.insert(fields.begin(), {"", absl::StrCat(last_.step, "/", training_->total_steps)});
  } else {
    return;
  }
  for (Field& field : fields) {  // a phase's name may contain a file name with control characters
    field.name = base::VisibleText(field.name);
    field.value = base::VisibleText(field.value);
  }
  Write(options_.file, absl::StrCat("\r", Fitted(share, fields), "\x1b[K"));
  drawn_ = options_.clock();
  open_ = true;
}

void Progress::Erase() {
  if (open_) Write(options_.file, "\r\x1b[K");
  open_ = false;
}

void Progress::WriteLine(absl::string_view text) {
  written_ = options_.clock();
  Log(text);
  if (options_.write_line) return options_.write_line(std::string(text));
  Write(options_.file, absl::StrCat(base::VisibleText(text), "\n"));
}

void Progress::WriteJson(const std::string& line) {
  if (options_.write_line) return options_.write_line(line);
  Write(options_.json_file, line + "\n");
}

// Write errors are ignored, so that a closed stderr does not end a run.
void Progress::Write(int file, absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace moonring::trainer
