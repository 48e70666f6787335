#include "base/files/inside_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/confinement.h"
#include "base/text/visible_text.h"

namespace moonring::base {
namespace {

absl::Status NotInside(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", VisibleText(name), "' is no name inside a folder: ", why));
}

}  // namespace

absl::Status CheckInsideName(absl::string_view name) {
  if (name.empty()) return NotInside(name, "it is empty");
  if (name[0] == '/') return NotInside(name, "it is an absolute path");
  if (std::any_of(name.begin(), name.end(),
                  [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }))
    return NotInside(name, "it has a control character");
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..")
      return NotInside(name, absl::StrCat("it has the part '", part, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlainName(absl::string_view name) {
  if (absl::StrContains(name, '/')) return NotInside(name, "not a plain file name, it has a '/'");
  return CheckInsideName(name);
}

absl::Status CheckStaysBelow(const std::string& folder, const std::string& path) {
  const std::string root = WithoutLinks(folder), real = WithoutLinks(path);
  if (!root.empty() && absl::StartsWith(real, root == "/" ? root : root + "/"))
    return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      VisibleText(path), " leads out of ", VisibleText(folder),
      real.empty() ? ": its links form a cycle" : absl::StrCat(", to ", VisibleText(real))));
}

bool IsCommit(absl::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace moonring::base
