// The WordPiece model (Schuster and Nakajima 2012; BERT's): a word is cut from the left, each time
// at the end of the longest piece that fits. Pieces that do not begin a word are written behind a
// prefix ("##"). A word that cannot be cut so, or is too long, becomes the unknown token as a
// whole.
//
// Cost: at most the word's length times the longest piece; a word seen before is a look-up.
// Create fails with INVALID_ARGUMENT where the unknown token is not in the vocabulary.
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
      vocabulary;  // in any order. The texts are read by Create only
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t longest_word = 100;  // characters
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
  int32_t continuing_ = ByteTrie::kNone;  // where pieces within a word begin: behind the prefix
  int32_t unknown_ = -1;
  int64_t longest_word_ = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_WORD_PIECE_H_
