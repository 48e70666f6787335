#include "lua/host/open_prompt.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "lua/host/interrupt.h"
#include "lua/host/line_editor.h"
#include "lua/host/prompt.h"

namespace moonring::lua {
namespace {

std::string HistoryPath() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return absl::StrCat(state, "/moonring/history");
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? absl::StrCat(home, "/.local/state/moonring/history")
                                         : "";
}

}  // namespace

absl::Status OpenPrompt(Host& host) {
  auto prompt = std::make_shared<Prompt>();
  host.limits.cancel = CatchInterrupts();
  ASSIGN_OR_RETURN(prompt->ranks, PromptRanks::FromEnvironment());
  const bool reads = prompt->ranks == nullptr || prompt->ranks->rank() == 0;
  if (reads && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
    ASSIGN_OR_RETURN(std::shared_ptr<LineEditor> editor,
                     LineEditor::Create({.history_file = host.sandbox ? "" : HistoryPath(),
                                         .interrupt = InterruptDescriptor()}));
    prompt->read_line = [editor](const std::string& text, const Completer& complete) {
      return editor->Read(text, complete);
    };
  }
  host.prompt = std::move(prompt);
  return absl::OkStatus();
}

}  // namespace moonring::lua
