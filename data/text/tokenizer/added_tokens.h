// Tokens that are looked for in the text itself before it is cut into words: "added_tokens" of a
// tokenizer.json, special ones among them.
//
// Those with normalized = false are looked for in the text as it comes, the others in the
// normalised text between them (their contents normalised likewise, unless verbatim). At each place
// the longest that matches wins, then the search goes on behind it. `single_word` refuses a match
// that touches a word character on either side; `lstrip` and `rstrip` draw the white space on that
// side into the match.
//
// A token is known by its contents: adding it again changes nothing, but that it may become
// special. One that the model's vocabulary holds keeps the vocabulary's id, a new one takes the
// next free id.
//
// Cost: one look at each byte that begins no token. Thread-safe once built.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_ADDED_TOKENS_H_
#define MOONRING_DATA_TEXT_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/normalizer.h"
#include "data/text/tokenizer/vocabulary.h"

namespace moonring::data {

struct AddedToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
  bool verbatim = false;  // with normalized: its contents are looked for in the normalised text as
                          // they are (sentencepiece's user-defined pieces)

  bool operator==(const AddedToken&) const = default;
};

// Finds a fixed set of strings: leftmost, then longest.
class TokenSearch {
 public:
  struct Pattern {
    AddedToken token;
    int32_t id;
    bool ignored = false;  // its matches are text
  };

  // Where two patterns have the same contents the first counts.
  void Add(absl::string_view contents, Pattern pattern);

  // Visits `text` (well-formed UTF-8) from left to right: what lies between tokens, and tokens.
  void Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> on_text,
             absl::FunctionRef<void(int32_t id)> on_token) const;

 private:
  struct Node {
    std::vector<std::pair<char, int>> next;  // few: searched one by one
    int pattern = -1;
  };
  std::pair<int, size_t> LongestAt(absl::string_view text, size_t at) const;  // pattern or -1, end

  std::array<bool, 256> begins_{};  // bytes that a pattern begins with
  std::vector<Node> nodes_{1};
  std::vector<Pattern> patterns_;
};

class AddedTokens {
 public:
  // `model`, the model's vocabulary, must outlive this.
  explicit AddedTokens(const Vocabulary* model) : model_(model) {}

  // The token's id: a new one's is `id` where that is given and free. Empty contents are passed
  // over (nothing). Call Build when all are in.
  std::optional<int32_t> Add(const AddedToken& token, std::optional<int32_t> id = std::nullopt);

  // As the tokenizers library adds a token to a tokenizer that is made: besides, a known one that
  // is not special takes the flags of one that is; one that is special stays as it is. The id where
  // the library counts the token as added: it is new to the added tokens, or was added with other
  // flags.
  std::optional<int32_t> AddLater(const AddedToken& token);

  // `split_special`: special tokens are not looked for, so that a text that spells one is a text
  // like any other.
  void Build(const Normalizer& normalizer, bool split_special = false);

  // `text` is well-formed UTF-8; on_text gets normalised text, and whether `text` begins with it.
  void Split(absl::string_view text, const Normalizer& normalizer,
             absl::FunctionRef<void(absl::string_view part, bool begins_text)> on_text,
             absl::FunctionRef<void(int32_t id)> on_token) const;

  std::optional<int32_t> IdOf(absl::string_view content) const;
  int32_t next_free_id() const;  // behind all others
  const std::map<int32_t, AddedToken>& by_id() const {
    return by_id_;
  }  // `special` says whether the contents are special
  int64_t new_tokens() const { return new_tokens_; }  // those that the model's vocabulary lacks

 private:
  const Vocabulary* model_;
  std::map<int32_t, AddedToken> by_id_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  int64_t new_tokens_ = 0;
  TokenSearch as_it_comes_, normalized_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_ADDED_TOKENS_H_
