#ifndef MOONRING_TRAINER_PROGRESS_H_
#define MOONRING_TRAINER_PROGRESS_H_

// How far a run is: a bar that redraws itself on a terminal, a plain line a report elsewhere (a
// file, a pipe), so that a log holds no control characters. Which rank shows one is its caller's
// business.
//
//    41% |█████████▍             | 123/300  0:02:05<0:03:00  1.02 s/step  loss 1.8342  lr 9.1e-06

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace moonring::trainer {

struct ProgressOptions {
  int64_t total_steps = 0;
  int64_t first_step = 0;
  int file = 2;      // a descriptor: stderr
  bool bar = false;  // OnTerminal(file)
  std::function<void(const std::string& line)>
      write_line;                // takes plain lines in the file's place; then there is no bar
  std::function<int()> columns;  // the terminal's width now; empty: asked of the terminal
  std::function<absl::Time()> clock = absl::Now;
};

// True where the descriptor is a terminal that understands cursor movement.
bool OnTerminal(int file);

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();  // ends the bar's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A step is done. The bar is redrawn at most ten times a second; nothing is written elsewhere.
  void Step(int64_t step);
  // A logging step: `text` is shown behind the bar from now on, or as a plain line.
  void Report(int64_t step, absl::string_view text);
  // A line above the bar.
  void Line(absl::string_view text);

 private:
  std::string Timing() const;
  void Draw();
  void Write(absl::string_view bytes) const;

  ProgressOptions options_;
  absl::Time start_, drawn_ = absl::InfinitePast();
  int64_t step_;
  std::string text_;
  bool open_ = false;  // the cursor stands behind a bar
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_PROGRESS_H_
