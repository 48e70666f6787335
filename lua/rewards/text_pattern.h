#ifndef MOONRING_LUA_REWARDS_TEXT_PATTERN_H_
#define MOONRING_LUA_REWARDS_TEXT_PATTERN_H_

// A regular expression that a reward searches for in a text, in PCRE2's syntax (Perl's, similar to
// Python's).
//
// - `.` also matches line ends; ^ and $ match only at the ends of the text ((?-s) and (?m) change
//   this); patterns are not anchored implicitly
// - characters are Unicode's; bytes that are not valid UTF-8 match nothing
// - a search takes at most ten million steps
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
  // Compiles a pattern. INVALID_ARGUMENT for a malformed pattern, with the position of the mistake.
  static absl::StatusOr<std::shared_ptr<TextPattern>> Compile(std::string pattern);
  ~TextPattern();

  // Returns the first match: the text of the whole match, then of its groups (nullopt for a group
  // that did not take part). Returns nullopt if nothing matches. RESOURCE_EXHAUSTED if the search
  // takes too many steps.
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
