// Cuts a text into words, the pieces that a model encodes one by one: the "pre_tokenizer" of a
// tokenizer.json.
//
// A pre-tokenizer is a chain of stages, each cutting every piece of the one before it and seeing
// nothing around that piece; null is the empty chain, whose one word is the text. Types:
//   ByteLevel {add_prefix_space, use_regex}       must come last; GPT-2's pattern unless use_regex
//                                                 is false
//   Metaspace {replacement, prepend_scheme, split}   spaces become `replacement` (U+2581); one more
//                                                 stands before each piece that begins with none
//                                                 (always), before the text's own beginning (first)
//                                                 or nowhere (never); cut before each
//   Split {pattern: {Regex | String}, behavior, invert}, CharDelimiterSplit {delimiter}, Digits
//       {individual_digits}, Punctuation {behavior}
//   Whitespace, WhitespaceSplit, BertPreTokenizer (WhitespaceSplit, then Punctuation)
//   Sequence {pretokenizers}
// Known difference: punctuation is what Unicode 14 says; the tokenizers library has a table of
// Unicode 8. ByteLevel passes the bytes themselves on (not their letters in GPT-2's alphabet), and
// says so: BPE must take them as such (data/text/tokenizer/bpe.h).
//
// Cost: linear in the text for the patterns in use; no copy but by Metaspace and where a prefix
// space is added. Thread-safe. Fails: UNIMPLEMENTED naming the place and type of what is not known,
// INVALID_ARGUMENT on wrong fields and patterns.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_PRE_TOKENIZER_H_
#define MOONRING_DATA_TEXT_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class PreTokenizer {
 public:
  using Visit = absl::FunctionRef<void(absl::string_view piece)>;

  // `description` is the JSON value, `where` names it in messages. `add_prefix_space` replaces that
  // of a ByteLevel that stands alone, as Transformers does by tokenizer_config.json.
  static absl::StatusOr<std::unique_ptr<const PreTokenizer>> FromJson(
      const nlohmann::json& description, std::optional<bool> add_prefix_space,
      absl::string_view where);

  // Visits the words of `text` (well-formed UTF-8) from left to right; none is empty. A piece is
  // valid during its visit. `begins_text`: whether `text` is the beginning of what is encoded, not
  // a part behind an added token.
  void Split(absl::string_view text, bool begins_text, Visit visit) const;

  bool byte_level() const { return byte_level_; }

  class Stage;
  ~PreTokenizer();

 private:
  PreTokenizer();
  absl::Status Append(const nlohmann::json& description, std::optional<bool> add_prefix_space,
                      const std::string& where);
  void Run(size_t stage, absl::string_view piece, bool begins_text, Visit visit) const;

  std::vector<std::unique_ptr<const Stage>> stages_;
  bool byte_level_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_PRE_TOKENIZER_H_
