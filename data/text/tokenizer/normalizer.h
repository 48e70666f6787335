// The "normalizer" of a tokenizer.json: rewrites a text before it is split into words.
//
// A chain of stages; null is the empty chain. Types:
//   NFC, NFD, NFKC, NFKD                   Unicode's normal forms, by utf8proc (Unicode 15)
//   Lowercase, StripAccents (drops marks), Strip {strip_left, strip_right} (of white space), Nmt
//       (drops control characters, and makes other white space a blank)
//   Prepend {prepend}, Replace {pattern: {Regex | String}, content}
//   BertNormalizer {clean_text, handle_chinese_chars, strip_accents, lowercase}
//   Precompiled {precompiled_charsmap}     sentencepiece's map
//                                          (data/text/tokenizer/characters_map.h), in base64. As in
//                                          the tokenizers library, a grapheme of less than six
//                                          bytes is looked up as a whole and replaced by the
//                                          replacement of its shortest match; in a longer grapheme
//                                          each character is looked up separately. With
//                                          longest_match, as in sentencepiece, the longest match is
//                                          used everywhere
//   Sequence {normalizers}
// Known differences: the tokenizers library has older tables, which do not reorder marks that
// Unicode added after version 9. For BertNormalizer, format characters added after version 8 are
// control characters (and dropped) only here.
//
// Cost: linear; a text that obviously is in a normal form (no code point that could compose or
// decompose) is not copied. Thread-safe. Errors: UNIMPLEMENTED with the position and type of
// unsupported stages, INVALID_ARGUMENT for wrong fields and patterns.
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
  // `description` is the JSON value; `where` names it in messages.
  static absl::StatusOr<std::unique_ptr<const Normalizer>> FromJson(
      const nlohmann::json& description, absl::string_view where);

  // The normalized text: `text` itself (well-formed UTF-8) if nothing changes, otherwise a view of
  // `storage`. Throws std::runtime_error if a stage produces more than MostRewritten bytes
  // (data/text/regex/replacement.h), and like Regex::Split.
  absl::string_view Normalize(absl::string_view text, std::string& storage) const;

  class Stage;
  ~Normalizer();

 private:
  Normalizer();
  absl::Status Append(const nlohmann::json& description, const std::string& where);

  std::vector<std::unique_ptr<const Stage>> stages_;
  double growth_ = 1.0;  // product over all stages
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_NORMALIZER_H_
