#include "lua/bindings/script_call.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/torch_status.h"
#include "comm/matched_call.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/guard.h"

namespace moonring::lua {
namespace {

// The line that makes the call. In a function of Moonring's own: that line, and the script's line
// that led to it.
std::string SiteOf(lua_State* L) {
  std::string own;
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    std::string site = absl::StrCat(frame.short_src, ":", frame.currentline);
    if (std::strncmp(frame.source, kOwnChunk, std::strlen(kOwnChunk)) != 0)
      return own.empty() ? site : absl::StrCat(site, " in ", own);
    if (own.empty()) own = std::move(site);
  }
  return own;
}

}  // namespace

std::vector<int64_t> MatchScriptCall(lua_State* L, comm::Communicator& group, std::string what,
                                     int64_t number) {
  if (group.size() == 1) return {number};
  return base::ValueOrThrow(
      comm::Match(group, {.what = std::move(what), .site = SiteOf(L)}, number));
}

std::string CallWith(absl::string_view function, const at::Tensor& tensor) {
  return absl::StrCat(function, " of ", NameOfDtype(tensor.scalar_type()), " [",
                      absl::StrJoin(tensor.sizes(), ", "), "]");
}

}  // namespace moonring::lua
