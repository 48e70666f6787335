#ifndef MOONRING_LUA_LINE_EDITOR_H_
#define MOONRING_LUA_LINE_EDITOR_H_

// Lines typed at a terminal: editing, history and Tab, by libedit (keys as Emacs has them,
// and what ~/.editrc says).
//
//   history   the lines of the file's end, then those of this session. A line is added to the file
//             as it is typed, by one write at its end under a lock: sessions at the same time
//             neither lose nor mix lines. The file is made with its folder, for its owner alone.
//             One that cannot be written costs no more than the history.
//   Tab       puts in what all offers begin with; where that is nothing more, lists them
//   Ctrl-C    gives the line up (lua/interrupt.h)
//   Ctrl-D    on an empty line: the end
//
// One in a process, used by one thread.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lua/typed_line.h"

namespace moonring::lua {

struct LineEditorOptions {
  std::string history_file;  // "": remembered in this session alone
  int interrupt = -1;        // readable where the line is to be given up; -1: never
};

class LineEditor {
 public:
  // FAILED_PRECONDITION where libedit does not know the terminal.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Create(LineEditorOptions options);
  virtual ~LineEditor() = default;
  virtual TypedLine Read(const std::string& prompt, const Completer& complete) = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LINE_EDITOR_H_
