// Regular expressions as tokenizers are defined by them (Oniguruma's syntax and meaning), run by
// PCRE2's compiler to machine code.
//
// The two differ where it matters here, so a pattern is rewritten before it is compiled: \s is
// Unicode's White_Space (PCRE2 adds U+180E), \w is Unicode's word characters, script names mean
// scripts without extensions, `{n,m}+` is a repeat of a repeat and not possessive, `^` and
// `$` border on lines, nested classes are unions. What has no counterpart (\b, \h, \K,
// back-references, set intersection, ...) is refused by name. Known differences that remain:
// PCRE2 10.42 has Unicode 14, so that characters assigned later are unassigned here; case is folded
// one character to one (Oniguruma also lets U+00DF match "ss").
//
// Thread-safe. Cost: patterns without nested repeats run in time linear in the text; one search may
// take some ten million steps, or a hundred for each byte, and all searches of one Split ten
// seconds and ten microseconds for each byte.
#ifndef MOONRING_DATA_TEXT_REGEX_REGEX_H_
#define MOONRING_DATA_TEXT_REGEX_REGEX_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class Regex {
 public:
  // Fails with INVALID_ARGUMENT where the pattern is malformed, UNIMPLEMENTED where it asks for
  // what is not supported.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(absl::string_view pattern);

  // Matches `text` itself.
  static absl::StatusOr<std::shared_ptr<const Regex>> Literal(absl::string_view text);

  ~Regex();

  // Cuts `text` into matches and what lies between them, from left to right: visit(piece, whether
  // it is a match). Pieces join to `text`; a match may be empty (not directly after another match),
  // a piece between is not. An empty text is one piece, no match. `text` is well-formed UTF-8.
  // Throws std::runtime_error where the matcher gives up (its memory is exhausted, or its steps:
  // the pattern has repeats within repeats that this text drives to try all their ways).
  void Split(absl::string_view text,
             absl::FunctionRef<void(absl::string_view piece, bool match)> visit) const;

 private:
  struct Program;
  explicit Regex(std::unique_ptr<Program> program);
  static absl::StatusOr<std::shared_ptr<const Regex>> CompileRewritten(absl::string_view pattern);

  std::unique_ptr<Program> program_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_REGEX_H_
