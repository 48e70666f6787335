#ifndef MOONRING_TRAINER_REPORTS_PROGRESS_H_
#define MOONRING_TRAINER_REPORTS_PROGRESS_H_

// Shows a run's progress in one of four modes:
//
//   bar     one terminal line that is redrawn. Fields that do not fit its width are omitted, the
//           least important first, so that it never wraps:
//              41% |█████████▉            | 123/300  loss 1.8342  0:02:05<0:03:00  1204 tokens/s
//              ...
//   plain   for a file or a pipe, without control characters: a line per logging step, and a line
//           about the current activity after half a minute without output
//   json    one line of JSON per step, to another file than the messages
//   off     nothing about steps
//
// Work before, between and after the steps is divided into phases, each with its own line and its
// own time, which does not count as time of steps. Messages (Line) are written in every mode.
// KeepLog also writes the messages and the lines of logging steps into a file. The caller decides
// which rank shows anything. A background thread redraws between calls. All functions are
// thread-safe.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/threads/work_count.h"
#include "trainer/checkpoint/durable_file.h"

namespace moonring::trainer {

enum class ProgressKind { kBar, kPlain, kJson, kOff };

struct ProgressOptions {
  ProgressKind kind = ProgressKind::kPlain;
  int file = 2;       // descriptor for messages and the bar: stderr
  int json_file = 1;  // stdout
  bool colors = false;
  bool watches = false;  // start a thread that calls Tick
  std::function<void(const std::string& line)>
      write_line;                   // receives all lines instead of the files; disables the bar
  std::function<int()> columns;     // the terminal's present width; empty: query the terminal
  std::function<int64_t()> memory;  // bytes in use; empty: those of this process
  std::function<absl::Time()> clock = absl::Now;
};

// Whether the descriptor is a terminal that supports cursor movement.
bool OnTerminal(int file);

// The numbers of a step. Optional numbers without a value are not shown.
struct StepProgress {
  int64_t step = 0;  // number of steps made
  double epoch = 0.0;
  int64_t tokens = 0;  // of the run so far
  std::optional<double> loss, learning_rate, grad_norm;
};

// The start of the steps, and values that are constant during training.
struct TrainingProgress {
  int64_t total_steps = 0, first_step = 0, first_tokens = 0;
  int64_t memory_limit = 0;  // bytes; 0: unknown
  std::string layout;        // for example "sp 4 zigzag-ring"
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress() { Close(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Must be called before the first step.
  void Train(TrainingProgress training);
  // Reports a completed step. The bar is redrawn at most ten times per second.
  void Step(const StepProgress& step);
  // Reports a logging step as text, which plain mode writes as a line.
  void Report(int64_t step, absl::string_view text);
  // Must be called after the last step. The bar then remains above later output.
  void EndTraining();

  // Writes a line above the bar.
  void Line(absl::string_view text);

  // From now on the file at `path` has a copy of each message and of each logging step's line, in
  // every mode; first those that came before this call. append: lines of an earlier run stay in
  // front. A line that cannot be written (full disk) is written with a later one.
  absl::Status KeepLog(const std::string& path, bool append);
  // Writes a text into that file only.
  void LogOnly(absl::string_view text);

  // An event other than a step, as a JSON object: one line in json mode.
  void Event(const std::string& json);

  // Begins the phase `name` ("preparing data"), which lasts until EndPhase; `count`, if given, is
  // the progress in `unit`s. The time of a nested phase is also part of the outer phase's time.
  void BeginPhase(std::string name, std::string unit, std::shared_ptr<const base::WorkCount> count);
  void EndPhase();
  // Seconds per phase name, in order of first occurrence.
  const std::vector<std::pair<std::string, double>>& spent() const { return spent_; }

  // Redraws the bar, or writes a line about the current activity, if enough time has passed.
  void Tick();
  // Ends the line of the bar.
  void Close();

 private:
  struct Phase {
    std::string name, unit;
    std::shared_ptr<const base::WorkCount> count;
    absl::Time began;
  };
  // A field of a line, shown as "name value", or only "value" if the name is empty.
  struct Field {
    std::string name, value;
  };

  std::string Timing() const;
  std::optional<double> SecondsLeft() const;
  double TokensPerSecond() const;
  std::string Memory() const;
  std::vector<Field> StepFields() const;
  std::vector<Field> PhaseFields() const;
  std::string Fitted(double share, const std::vector<Field>& fields) const;
  void Draw();
  void Erase();
  void WriteLine(absl::string_view text);
  void Log(absl::string_view text);
  absl::Duration Paused() const;
  void WriteJson(const std::string& line);
  void Write(int file, absl::string_view bytes) const;
  void Watch();

  ProgressOptions options_;
  mutable std::mutex mutex_;
  std::optional<TrainingProgress> training_;
  StepProgress last_;
  absl::Time start_, stepped_, drawn_ = absl::InfinitePast(), written_;
  // The time in steps and the tokens of the run, after each of the last steps.
  std::deque<std::pair<absl::Duration, int64_t>> tokens_;
  absl::Duration paused_ = absl::ZeroDuration();  // time of finished phases since Train
  std::vector<Phase> phases_;                          // the innermost last
  std::vector<std::pair<std::string, double>> spent_;
  std::optional<LineAppender> log_;
  std::vector<std::string> unlogged_;  // lines before KeepLog
  bool open_ = false;  // the cursor is at the end of a bar
  bool closed_ = false;
  std::condition_variable closing_;
  std::thread watcher_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_PROGRESS_H_
