#include "lua/vm/script_error.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lua/binding/guard.h"

namespace moonring::lua {
namespace {

constexpr int kMostFrames = 12, kMostLevels = 200;  // each stack level costs as many steps as its
                                                    // depth

}  // namespace

std::string ScriptFrames(lua_State* L) {
  std::string lines;
  int frames = 0;
  lua_Debug frame;
  for (int level = 1; level < kMostLevels && lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "nSl", &frame);
    if (frame.currentline <= 0 || absl::StartsWith(frame.source, kOwnChunk))
      continue;  // a C function, or one of Moonring's
    if (++frames > kMostFrames) {
      absl::StrAppend(&lines, "\n  ...");
      break;
    }
    absl::StrAppend(&lines, "\n  ", frame.short_src, ":", frame.currentline, ": in ");
    if (std::strcmp(frame.what, "main") == 0) {
      absl::StrAppend(&lines, "main chunk");
    } else if (frame.name != nullptr) {
      absl::StrAppend(&lines, "function '", frame.name, "'");
    } else {
      absl::StrAppend(&lines, "the function of line ", frame.linedefined);
    }
  }
  return lines;
}

bool AddsToMessage(const std::string& frames, const ErrorValue& error, int exit_code) {
  if (frames.empty()) return false;
  const bool is_plain = error.code != absl::StatusCode::kUnknown && error.place.empty();
  if (exit_code == 2 && is_plain) return false;
  const bool several = frames.find('\n', 1) != std::string::npos;
  const std::string only = frames.substr(0, frames.find(": in "));
  return several ||
         !absl::StartsWith(error.Text(), absl::StrCat(absl::StripPrefix(only, "\n  "), ":"));
}

}  // namespace moonring::lua
