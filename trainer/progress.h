#ifndef MOONRING_TRAINER_PROGRESS_H_
#define MOONRING_TRAINER_PROGRESS_H_

// How far a run is, in one of four ways:
//
//   bar     one line of a terminal that redraws itself, as wide as that is: what does not fit is
//           left out, the least important first, so that it never wraps
//              41% |█████████▉            | 123/300  loss 1.8342  0:02:05<0:03:00  1204 tokens/s
//              ...
//   plain   for a file or a pipe, without control characters: a line a logging step, and one that
//           says what goes on wherever nothing was said for half a minute
//   json    a line of JSON a step, to another file than the words
//   off     nothing of steps
//
// What lasts before, between and after the steps is a phase: it has a line of its own and is timed.
// Words (Line) are written in each way. Which rank shows anything is its caller's business. A
// thread redraws where nothing calls: all functions may be called while it does.

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

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/threads/work_count.h"

namespace moonring::trainer {

enum class ProgressKind { kBar, kPlain, kJson, kOff };

struct ProgressOptions {
  ProgressKind kind = ProgressKind::kPlain;
  int file = 2;       // a descriptor, for words and the bar: stderr
  int json_file = 1;  // stdout
  bool colors = false;
  bool watches = false;  // a thread calls Tick
  std::function<void(const std::string& line)>
      write_line;                   // takes all lines in the files' place; then there is no bar
  std::function<int()> columns;     // the terminal's width now; empty: asked of the terminal
  std::function<int64_t()> memory;  // bytes that are held now; empty: those of this process
  std::function<absl::Time()> clock = absl::Now;
};

// True where the descriptor is a terminal that understands cursor movement.
bool OnTerminal(int file);

// A step's numbers; absent ones are not shown.
struct StepProgress {
  int64_t step = 0;  // steps made
  double epoch = 0.0;
  int64_t tokens = 0;  // that the run has seen so far
  std::optional<double> loss, learning_rate, grad_norm;
};

// Where the steps begin, and what does not change while they are made.
struct TrainingProgress {
  int64_t total_steps = 0, first_step = 0, first_tokens = 0;
  int64_t memory_limit = 0;  // bytes; 0: not known
  std::string layout;        // "sp 4 zigzag-ring"
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress() { Close(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Before the first step.
  void Train(TrainingProgress training);
  // A step is done. A bar is redrawn at most ten times a second.
  void Step(const StepProgress& step);
  // A logging step, in words: a line where progress is plain.
  void Report(int64_t step, absl::string_view text);
  // After the last step: the bar stays as it is, above what follows.
  void EndTraining();

  // A line above the bar.
  void Line(absl::string_view text);

  // An event beside the steps, as an object of JSON: a line where progress is json.
  void Event(const std::string& json);

  // Until EndPhase, `name` goes on ("preparing data"), so far of it in `unit`s where there is a
  // count. A phase in a phase is a part of it.
  void BeginPhase(std::string name, std::string unit, std::shared_ptr<const base::WorkCount> count);
  void EndPhase();
  // The seconds that phases took by name, in the order in which they came first.
  const std::vector<std::pair<std::string, double>>& spent() const { return spent_; }

  // Redraws, or says what goes on, where it is time to.
  void Tick();
  // Ends the line that a bar stands in.
  void Close();

 private:
  struct Phase {
    std::string name, unit;
    std::shared_ptr<const base::WorkCount> count;
    absl::Time began;
  };
  // Of a line: shown as "name value", the name empty where the value speaks for itself.
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
  void WriteJson(const std::string& line);
  void Write(int file, absl::string_view bytes) const;
  void Watch();

  ProgressOptions options_;
  mutable std::mutex mutex_;
  std::optional<TrainingProgress> training_;
  StepProgress last_;
  absl::Time start_, stepped_, drawn_ = absl::InfinitePast(), written_;
  std::deque<std::pair<absl::Time, int64_t>> tokens_;  // at the last steps
  std::vector<Phase> phases_;                          // the innermost last
  std::vector<std::pair<std::string, double>> spent_;
  bool open_ = false;  // the cursor stands behind a bar
  bool closed_ = false;
  std::condition_variable closing_;
  std::thread watcher_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_PROGRESS_H_
