#include "lua/host/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/confinement.h"

namespace moonring::lua {
namespace {

constexpr int kRemembered = 5000;               // lines in the history
constexpr off_t kMostHistory = off_t{1} << 20;  // bytes read from the end of the file
constexpr size_t kManyOffers = 12;              // more are displayed in columns, without their
                                                // types

// The open and locked history file; the descriptor is -1 if the file cannot be opened.
class HistoryFile {
 public:
  HistoryFile(const std::string& path, int flags, int lock) {
    if (path.empty() || !base::CheckWriting(path).ok()) return;
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if ((flags & O_CREAT) != 0 && std::filesystem::create_directories(folder, ignored))
      chmod(folder.c_str(), 0700);
    file_ = open(path.c_str(), flags | O_CLOEXEC, 0600);
    if (file_ >= 0) flock(file_, lock);
  }
  ~HistoryFile() {
    if (file_ >= 0) close(file_);
  }
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;
  int get() const { return file_; }

 private:
  int file_ = -1;
};

// Returns the lines at the end of a file; a first line whose beginning was not read is dropped.
std::vector<std::string> LastLines(const std::string& path) {
  const HistoryFile file(path, O_RDONLY, LOCK_SH);
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return {};
  const off_t from = std::max<off_t>(0, status.st_size - kMostHistory);
  std::string text(static_cast<size_t>(status.st_size - from), '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), from);
  text.resize(std::max<ssize_t>(0, size));
  if (from > 0) text.erase(0, text.find('\n') == std::string::npos ? text.size() : text.find('\n'));
  return absl::StrSplit(text, '\n', absl::SkipWhitespace());
}

void AddLine(const std::string& path, const std::string& line) {
  const HistoryFile file(path, O_WRONLY | O_APPEND | O_CREAT, LOCK_EX);
  const std::string text = line + "\n";
  if (file.get() >= 0) (void)!write(file.get(), text.data(), text.size());
}

std::string CommonBeginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto [end, unused] =
        std::mismatch(common.begin(), common.end(), word.begin(), word.end());
    common.erase(end, common.end());
  }
  return common;
}

class Editor : public LineEditor {
 public:
  explicit Editor(LineEditorOptions options) : options_(std::move(options)) {}

  bool Open() {
    setlocale(LC_CTYPE, "C.UTF-8");
    edit_.reset(el_init("moonring", stdin, stdout, stderr));
    history_.reset(history_init());
    if (edit_ == nullptr || history_ == nullptr) return false;
    HistEvent event = {};
    history(history_.get(), &event, H_SETSIZE, kRemembered);
    history(history_.get(), &event, H_SETUNIQUE, 1);  // no duplicates in a row
    for (const std::string& line : LastLines(options_.history_file))
      history(history_.get(), &event, H_ENTER, line.c_str());
    EditLine* const edit = edit_.get();
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT, &Prompt);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 0);  // Ctrl-C is handled by lua/host/interrupt.h
    el_set(edit, EL_HIST, &::history, history_.get());
    el_set(edit, EL_GETCFN, &GetCharacter);
    el_set(edit, EL_ADDFN, "complete", "completes what stands before the cursor", &Complete);
    el_set(edit, EL_BIND, "^I", "complete", nullptr);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(edit, nullptr);
    return true;
  }

  TypedLine Read(const std::string& prompt, const Completer& complete) override {
    prompt_ = prompt;
    completer_ = &complete;
    interrupted_ = false;
    typed_ahead_ = -1;
    TakeInterrupts();
    el_resize(edit_.get());
    int size = 0;
    const char* const text = el_gets(edit_.get(), &size);
    completer_ = nullptr;
    if (interrupted_) {
      std::fputs("^C\n", stdout);
      std::fflush(stdout);
      return {TypedLine::Kind::kInterrupted, ""};
    }
    if (text == nullptr || size <= 0) return {TypedLine::Kind::kEnd, ""};
    std::string line(text, size);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) {
      HistEvent event = {};
      history(history_.get(), &event, H_ENTER, line.c_str());
      AddLine(options_.history_file, line);
    }
    return {TypedLine::Kind::kLine, std::move(line)};
  }

 private:
  static Editor& Of(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<Editor*>(data);
  }

  static char* Prompt(EditLine* edit) { return Of(edit).prompt_.data(); }

  // Discards interrupts (Ctrl-C) that came while no line was typed.
  void TakeInterrupts() const {
    pollfd asked = {options_.interrupt, POLLIN, 0};
    char bytes[64];
    while (poll(&asked, 1, 0) > 0 && read(options_.interrupt, bytes, sizeof bytes) > 0) {
    }
  }

  // Reads one character from the terminal. Returns 1; or 0 at the end of input, and when the line
  // is abandoned. A Ctrl-D that was typed while code ran, when the editor did not control the
  // terminal, arrives as NUL.
  static int GetCharacter(EditLine* edit, wchar_t* character) {
    Editor& self = Of(edit);
    std::mbstate_t state = {};
    if (self.typed_ahead_ < 0 && ioctl(STDIN_FILENO, FIONREAD, &self.typed_ahead_) != 0)
      self.typed_ahead_ = 0;
    while (true) {
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {self.options_.interrupt, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return 0;
      }
      if (fds[1].revents != 0) {
        self.TakeInterrupts();
        self.interrupted_ = true;
        return 0;
      }
      char byte = 0;
      const ssize_t size = read(STDIN_FILENO, &byte, 1);
      if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (size <= 0) return 0;
      constexpr char kCtrlD = 4;
      if (self.typed_ahead_ > 0) {
        --self.typed_ahead_;
        if (byte == 0) byte = kCtrlD;
      }
      const size_t taken = std::mbrtowc(character, &byte, 1, &state);
      if (taken == static_cast<size_t>(-2)) continue;  // the character has more bytes
      if (taken == static_cast<size_t>(-1)) *character = L'?', state = {};
      return 1;
    }
  }

  static unsigned char Complete(EditLine* edit, int) {
    Editor& self = Of(edit);
    const LineInfo* const info = el_line(edit);
    const std::string line(info->buffer, info->lastchar - info->buffer);
    const size_t cursor = info->cursor - info->buffer;
    if (self.completer_ == nullptr || !*self.completer_) return CC_ERROR;
    const Offers offers = (*self.completer_)(line, cursor);
    if (offers.words.empty() || offers.begin > cursor) return CC_ERROR;
    const std::string typed = line.substr(offers.begin, cursor - offers.begin);
    const std::string common = CommonBeginning(offers.words);
    if (common.size() > typed.size()) {
      el_deletestr(edit, static_cast<int>(typed.size()));
      return el_insertstr(edit, common.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    }
    self.List(offers);
    return CC_REDISPLAY;
  }

  void List(const Offers& offers) const {
    std::fputc('\n', stdout);
    if (offers.words.size() <= kManyOffers) {
      for (const std::string& shown : offers.shown) std::fprintf(stdout, "  %s\n", shown.c_str());
      return (void)std::fflush(stdout);
    }
    size_t widest = 0;
    for (const std::string& word : offers.words) widest = std::max(widest, word.size() + 2);
    const size_t columns = std::max<size_t>(1, 100 / widest);
    for (size_t i = 0; i < offers.words.size(); ++i) {
      const bool last = (i + 1) % columns == 0 || i + 1 == offers.words.size();
      std::fprintf(stdout, "%-*s%s", static_cast<int>(last ? 0 : widest), offers.words[i].c_str(),
                   last ? "\n" : "");
    }
    std::fflush(stdout);
  }

  struct End {
    void operator()(EditLine* edit) const { el_end(edit); }
    void operator()(History* lines) const { history_end(lines); }
  };
  const LineEditorOptions options_;
  std::unique_ptr<History, End> history_;
  std::unique_ptr<EditLine, End> edit_;  // refers to the history, so it is destroyed first
  std::string prompt_;
  const Completer* completer_ = nullptr;
  bool interrupted_ = false;
  int typed_ahead_ = 0;  // bytes typed before this line was requested; -1: not determined yet
};

}  // namespace

absl::StatusOr<std::unique_ptr<LineEditor>> LineEditor::Create(LineEditorOptions options) {
  auto editor = std::make_unique<Editor>(std::move(options));
  if (!editor->Open()) {
    const char* const terminal = std::getenv("TERM");
    return absl::FailedPreconditionError(absl::StrCat("the line editor does not know the terminal ",
                                                      terminal == nullptr ? "" : terminal));
  }
  return editor;
}

}  // namespace moonring::lua
