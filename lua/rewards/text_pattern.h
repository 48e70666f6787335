#ifndef MOONRING_LUA_REWARDS_TEXT_PATTERN_H_
#define MOONRING_LUA_REWARDS_TEXT_PATTERN_H_

// A regular expression that a reward looks for in a text: PCRE2's syntax, which is Perl's and near
// to Python's.
//
//   - `.` matches line ends too, ^ and $ are the text's own ends alone ((?-s) and (?m) say
//     otherwise); nothing is anchored that the pattern does not anchor
//   - characters are Unicode's; bytes of a text that are no UTF-8 match nothing
//   - a search takes ten million steps at most
//
// Thread-safe.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

class TextPattern {
 public:
  // INVALID_ARGUMENT where the pattern is malformed, with the place.
  static absl::StatusOr<std::shared_ptr<TextPattern>> Compile(std::string pattern);
  ~TextPattern();

  // The first match: all of it, then its groups (nothing for one that took no part); nullopt where
  // there is none. RESOURCE_EXHAUSTED where the search takes too many steps.
  using Match = std::vector<std::optional<std::string>>;
  absl::StatusOr<std::optional<Match>> Find(absl::string_view text) const;

  const std::string& text() const { return text_; }

 private:
  struct Program;
  TextPattern(std::string text, std::unique_ptr<Program> program);

  const std::string text_;
  const std::unique_ptr<Program> program_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REWARDS_TEXT_PATTERN_H_
