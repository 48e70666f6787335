// Regular expressions with the syntax and semantics of Oniguruma, which tokenizers use, executed by
// PCRE2's JIT compiler.
//
// Where PCRE2 would give a construct another meaning, the pattern is rewritten so that it has
// Oniguruma's: \s is Unicode's White_Space (PCRE2 adds U+180E); \w is Unicode's word characters;
// \p{Latin} matches characters of the script Latin, not those that Unicode lists as also used in it
// (script extensions); `{n,m}+` repeats `{n,m}` once or more and is not possessive; `^` and `$`
// also match at the start and end of each line; a class inside a class, [a[bc]], adds its
// characters. Constructs without an equivalent (\b, \h, \K, back-references, set intersection, ...)
// are errors that name them. Remaining differences: PCRE2 10.42 uses Unicode 14, so later
// characters are unassigned; case folding is one character to one (in Oniguruma U+00DF also matches
// "ss").
//
// Thread-safe. Cost: patterns without nested quantifiers take linear time. One search is limited to
// ten million steps, or 100 per byte if that is more; all searches of one Split to 10 seconds plus
// 10 microseconds per byte.
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
  // INVALID_ARGUMENT for a malformed pattern, UNIMPLEMENTED for unsupported constructs.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(absl::string_view pattern);

  // A pattern that matches `text` literally.
  static absl::StatusOr<std::shared_ptr<const Regex>> Literal(absl::string_view text);

  ~Regex();

  // Splits `text` into matches and the text between them, from left to right: visit(piece, whether
  // it is a match). The pieces concatenated are `text`. A match may be empty (but not directly
  // after another match); a piece between matches is not. An empty text is one piece that is not a
  // match. `text` must be well-formed UTF-8. Throws std::runtime_error if a limit of memory, steps
  // or time is exceeded, which nested quantifiers can cause.
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
