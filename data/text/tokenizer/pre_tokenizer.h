// The "pre_tokenizer" of a tokenizer.json: splits a text into words, which the model encodes
// separately.
//
// A pre-tokenizer is a chain of stages. Each stage splits every piece of the previous stage,
// without knowledge of the text around the piece. Null is the empty chain: the text is one word.
// Types:
//   ByteLevel {add_prefix_space, use_regex}       must be the last stage; GPT-2's pattern unless
//                                                 use_regex is false
//   Metaspace {replacement, prepend_scheme, split}   spaces become `replacement` (U+2581); it is
//                                                 prepended to each piece that does not begin with
//                                                 it (always), only at the text's beginning (first)
//                                                 or not at all (never); pieces are split before
//                                                 each of them
//   Split {pattern: {Regex | String}, behavior, invert}, CharDelimiterSplit {delimiter}, Digits
//       {individual_digits}, Punctuation {behavior}
//   Whitespace, WhitespaceSplit, BertPreTokenizer (WhitespaceSplit, then Punctuation)
//   Sequence {pretokenizers}
// Known difference: punctuation is that of Unicode 14; the tokenizers library has a table of
// Unicode 8. ByteLevel passes on bytes (not their letters in GPT-2's alphabet), and byte_level() is
// then true: BPE must process them as bytes (data/text/tokenizer/bpe.h).
//
// Cost: linear in the text for the patterns in use; nothing is copied except by Metaspace and for
// an added prefix space. Thread-safe. Errors: UNIMPLEMENTED with the position and type of
// unsupported stages, INVALID_ARGUMENT for wrong fields and patterns.
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

  // `description` is the JSON value; `where` names it in messages. `add_prefix_space` replaces that
  // of a ByteLevel that is the only stage, as Transformers does with the value in
  // tokenizer_config.json.
  static absl::StatusOr<std::unique_ptr<const PreTokenizer>> FromJson(
      const nlohmann::json& description, std::optional<bool> add_prefix_space,
      absl::string_view where);

  // Visits the words of `text` (well-formed UTF-8) from left to right; none is empty. A piece is
  // valid only during its visit. `begins_text`: whether `text` is at the beginning of the encoded
  // text, and not after an added token.
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
