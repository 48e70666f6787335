// The WordPiece model (Schuster and Nakajima 2012; used in BERT): a word is segmented from the
// left, each time with the longest matching piece. Pieces that do not begin a word have a prefix
// ("##") in the vocabulary. A word that cannot be segmented, or is too long, becomes one unknown
// token.
//
// Cost: at most word length times the longest piece; repeated words are looked up in a cache.
// Create fails with INVALID_ARGUMENT if the unknown token is not in the vocabulary.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_WORD_PIECE_H_
#define MOONRING_DATA_TEXT_TOKENIZER_WORD_PIECE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/byte_trie.h"
#include "data/text/tokenizer/token_model.h"

namespace moonring::data {

struct WordPieceOptions {
  std::vector<std::pair<absl::string_view, int64_t>>
      vocabulary;  // in any order; views are used by Create only
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t longest_word = 100;  // in characters
};

class WordPiece final : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<const WordPiece>> Create(const WordPieceOptions& options);

  std::unique_ptr<TokenModel::Workspace> NewWorkspace() const override;
  void Encode(absl::string_view word, TokenModel::Workspace& workspace,
              std::vector<int32_t>& ids) const override;

 private:
  struct Workspace;

  WordPiece() = default;
  bool Cut(absl::string_view word, std::vector<int32_t>& ids) const;

  ByteTrie trie_;
  // trie node after the prefix, where continuing pieces begin
  int32_t continuing_ = ByteTrie::kNone;
  int32_t unknown_ = -1;
  int64_t longest_word_ = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_WORD_PIECE_H_
