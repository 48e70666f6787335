#include "trainer/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "trainer/metrics_log.h"

namespace moonring::trainer {
namespace {

constexpr int kBarCells = 24;
constexpr absl::Duration kRedraw = absl::Milliseconds(100);

int TerminalColumns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A bar in eighths of a cell.
std::string Bar(double share) {
  static constexpr const char* kPartial[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::clamp(static_cast<int>(share * kBarCells * 8), 0, kBarCells * 8);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kPartial[eighths % 8];
  bar.append(kBarCells - (eighths + 7) / 8, ' ');
  return bar;
}

// The first `columns` characters of UTF-8.
std::string Shorten(const std::string& text, int columns) {
  size_t end = 0;
  for (int shown = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && shown++ == columns) break;
  }
  return text.substr(0, end);
}

}  // namespace

bool OnTerminal(int file) {
  const char* kind = std::getenv("TERM");
  return isatty(file) == 1 && kind != nullptr && absl::string_view(kind) != "dumb";
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)), start_(options_.clock()), step_(options_.first_step) {
  if (!options_.columns)
    options_.columns = [file = options_.file] { return TerminalColumns(file); };
  if (options_.write_line) options_.bar = false;
  if (options_.bar) Draw();
}

Progress::~Progress() {
  if (!open_) return;
  Draw();
  Write("\n");
}

void Progress::Step(int64_t step) {
  step_ = step;
  if (options_.bar && (options_.clock() - drawn_ >= kRedraw || step == options_.total_steps))
    Draw();
}

void Progress::Report(int64_t step, absl::string_view text) {
  step_ = step;
  text_ = std::string(text);
  if (options_.bar) {
    Draw();
  } else {
    Write(
        absl::StrCat("step ", step_, "/", options_.total_steps, "  ", text_, "  ", Timing(), "\n"));
  }
}

void Progress::Line(absl::string_view text) {
  if (!open_) return Write(absl::StrCat(text, "\n"));
  Write(absl::StrCat("\r\x1b[K", text, "\n"));
  Draw();
}

std::string Progress::Timing() const {
  const double seconds = absl::ToDoubleSeconds(options_.clock() - start_);
  const int64_t made = step_ - options_.first_step;
  if (made <= 0) return ClockTime(seconds);
  const double each = seconds / static_cast<double>(made);
  return absl::StrCat(ClockTime(seconds), "<",
                      ClockTime(each * static_cast<double>(options_.total_steps - step_)), "  ",
                      each >= 1.0 ? absl::StrFormat("%.2f s/step", each)
                                  : absl::StrFormat("%.2f steps/s", 1.0 / std::max(each, 1e-9)));
}

void Progress::Draw() {
  const double share = options_.total_steps > 0
                           ? static_cast<double>(step_) / static_cast<double>(options_.total_steps)
                           : 1.0;
  const std::string line =
      absl::StrCat(absl::StrFormat("%3d%%", static_cast<int>(share * 100)), " |", Bar(share), "| ",
                   step_, "/", options_.total_steps, "  ", Timing(), "  ", text_);
  // One column less than there are: a full line would wrap, and the next drawing would begin a line
  // too low.
  Write(absl::StrCat("\r", Shorten(line, std::max(1, options_.columns() - 1)), "\x1b[K"));
  drawn_ = options_.clock();
  open_ = true;
}

// Progress is a courtesy: a closed stderr must not end a run.
void Progress::Write(absl::string_view bytes) const {
  if (options_.write_line) return options_.write_line(std::string(absl::StripSuffix(bytes, "\n")));
  while (!bytes.empty()) {
    const ssize_t written = write(options_.file, bytes.data(), bytes.size());
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace moonring::trainer
