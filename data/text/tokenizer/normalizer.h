// Rewrites a text before it is cut into words: the "normalizer" of a tokenizer.json.
//
// A chain of stages; null is the empty one. Types:
//   NFC, NFD, NFKC, NFKD                   Unicode's normal forms, by utf8proc (Unicode 15)
//   Lowercase, StripAccents (drops marks), Strip {strip_left, strip_right} (of white space), Nmt
//       (control characters)
//   Prepend {prepend}, Replace {pattern: {Regex | String}, content}
//   BertNormalizer {clean_text, handle_chinese_chars, strip_accents, lowercase}
//   Precompiled {precompiled_charsmap}     sentencepiece's map
//                                          (data/text/tokenizer/characters_map.h), in base64. As
//                                          the tokenizers library does, a grapheme of less than six
//                                          bytes is looked up as a whole and becomes what its
//                                          shortest match stands for, of a longer one each
//                                          character by itself. With longest_match, as
//                                          sentencepiece does it: everywhere the longest match
//   Sequence {normalizers}
// Known differences: the tokenizers library has older tables, so marks that Unicode added after
// version 9 are not put in order there; for BertNormalizer format characters that it added after
// version 8 are control characters (and dropped) here alone.
//
// Cost: linear; a text that a normal form leaves as it is at sight (no code point that could
// compose or decompose) is not copied. Thread-safe. Fails: UNIMPLEMENTED naming the place and type
// of what is not known, INVALID_ARGUMENT on wrong fields and patterns.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_NORMALIZER_H_
#define MOONRING_DATA_TEXT_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class Normalizer {
 public:
  // `description` is the JSON value, `where` names it in messages.
  static absl::StatusOr<std::unique_ptr<const Normalizer>> FromJson(
      const nlohmann::json& description, absl::string_view where);

  // The normalised text: `text` itself (well-formed UTF-8) where nothing changes, else `storage`,
  // which holds it. Throws std::runtime_error where a stage makes more than MostRewritten
  // (data/text/regex/replacement.h), or as Regex::Split.
  absl::string_view Normalize(absl::string_view text, std::string& storage) const;

  class Stage;
  ~Normalizer();

 private:
  Normalizer();
  absl::Status Append(const nlohmann::json& description, const std::string& where);

  std::vector<std::unique_ptr<const Stage>> stages_;
  double growth_ = 1.0;  // of all stages
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_NORMALIZER_H_
