#ifndef MOONRING_LUA_HOST_LINE_EDITOR_H_
#define MOONRING_LUA_HOST_LINE_EDITOR_H_

// Line editing at a terminal with history and completion, by libedit (Emacs keys, and the settings
// in ~/.editrc).
//
//   history   The last lines of the history file, then those of this session. Each line is appended
//             to the file as it is typed, in one write under a lock, so concurrent sessions neither
//             lose nor mix lines. The file and its folder are created with access for the user
//             only. If the file cannot be written, only the history is lost.
//   Tab       Inserts the common prefix of all completions; if that adds nothing, lists them.
//   Ctrl-C    Abandons the line (lua/host/interrupt.h).
//   Ctrl-D    On an empty line: end of input.
//
// A process may have only one editor, used by one thread.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lua/host/typed_line.h"

namespace moonring::lua {

struct LineEditorOptions {
  std::string history_file;  // "": history of this session only
  int interrupt = -1;        // descriptor that becomes readable when the line must be abandoned;
                             // -1: none
};

class LineEditor {
 public:
  // Creates the editor. FAILED_PRECONDITION if libedit does not support the terminal.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Create(LineEditorOptions options);
  virtual ~LineEditor() = default;
  virtual TypedLine Read(const std::string& prompt, const Completer& complete) = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_LINE_EDITOR_H_
