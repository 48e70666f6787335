// "added_tokens" of a tokenizer.json, including special tokens: they are matched in the text before
// it is split into words.
//
// Tokens with normalized = false are matched in the original text, the others in the normalized
// text between those matches (their contents are normalized too, unless `verbatim`). At each
// position the longest match wins; the search continues after it. `single_word` rejects a match
// next to a word character; `lstrip` and `rstrip` extend the match over the white space on that
// side.
//
// A token is identified by its contents: adding it again changes nothing, except that it may become
// special. A token in the model's vocabulary keeps its id; a new one gets the next free id.
//
// Cost: one check per byte that begins no token. Thread-safe after Build.
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
  // with normalized: the contents are matched in the normalized text without being normalized
  // (sentencepiece's user-defined pieces)
  bool verbatim = false;

  bool operator==(const AddedToken&) const = default;
};

// Finds a fixed set of strings in a text: leftmost match first, then longest.
class TokenSearch {
 public:
  struct Pattern {
    AddedToken token;
    int32_t id;
    bool ignored = false;  // its matches are treated as text
  };

  // If two patterns have the same contents, the first one is used.
  void Add(absl::string_view contents, Pattern pattern);

  // Visits `text` (well-formed UTF-8) from left to right: tokens and the text between them.
  void Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> on_text,
             absl::FunctionRef<void(int32_t id)> on_token) const;

 private:
  struct Node {
    std::vector<std::pair<char, int>> next;  // searched linearly, since there are few
    int pattern = -1;
  };
  std::pair<int, size_t> LongestAt(absl::string_view text, size_t at) const;  // pattern or -1, end

  std::array<bool, 256> begins_{};  // first bytes of patterns
  std::vector<Node> nodes_{1};
  std::vector<Pattern> patterns_;
};

class AddedTokens {
 public:
  // `model`, the model's vocabulary, must outlive this object.
  explicit AddedTokens(const Vocabulary* model) : model_(model) {}

  // Adds a token and returns its id: for a new token, `id` if it is given and free. Returns nullopt
  // for empty contents. Build must be called after the last token.
  std::optional<int32_t> Add(const AddedToken& token, std::optional<int32_t> id = std::nullopt);

  // Adds a token to a finished tokenizer, as the tokenizers library does: in addition to Add, a
  // known token that is not special takes the flags of a special one, and a special one is
  // unchanged. Returns the id if the library counts the token as added, that is, if it was not an
  // added token or had other flags.
  std::optional<int32_t> AddLater(const AddedToken& token);

  // `split_special`: special tokens are not matched; text that spells one is ordinary text.
  void Build(const Normalizer& normalizer, bool split_special = false);

  // `text` must be well-formed UTF-8. on_text receives normalized text, and whether it is at the
  // beginning of `text`.
  void Split(absl::string_view text, const Normalizer& normalizer,
             absl::FunctionRef<void(absl::string_view part, bool begins_text)> on_text,
             absl::FunctionRef<void(int32_t id)> on_token) const;

  std::optional<int32_t> IdOf(absl::string_view content) const;
  int32_t next_free_id() const;  // greater than all others
  const std::map<int32_t, AddedToken>& by_id() const {
    return by_id_;
  }  // `special` is resolved by contents
  // tokens that are not in the model's vocabulary
  int64_t new_tokens() const { return new_tokens_; }

 private:
  const Vocabulary* model_;
  std::map<int32_t, AddedToken> by_id_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  int64_t new_tokens_ = 0;
  TokenSearch as_it_comes_, normalized_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_ADDED_TOKENS_H_
