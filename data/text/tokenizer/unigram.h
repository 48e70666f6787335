// The Unigram model (Kudo 2018, arXiv 1804.10959): of all segmentations of a word into pieces of
// the vocabulary, finds the one with the largest sum of scores (log-probabilities), with the
// Viterbi algorithm.
//
//   best(0) = 0,  best(j) = max over pieces w = word[i, j) of best(i) + score(w)
//
// A character that is not a piece can be treated as unknown, with the lowest score - 10. Adjacent
// unknown characters become one token: that of their joined text if it exists; otherwise with
// byte_fallback the tokens <0x00> to <0xFF> of its bytes if the vocabulary has all of them;
// otherwise `unknown`, or nothing if no unknown token is given (the tokenizers library then raises
// an error). Of equal sums, the first one found is used: pieces are tried in order of their begin,
// then of their length. Sums are rounded as in the reference implementation, because rounding
// decides between two orders of the same pieces: fp64 (encode_optimized of tokenizers) or fp32
// (sentencepiece).
//
// Cost: word length times the longest piece; repeated words are looked up in a cache. Memory: 16
// bytes per byte of the longest word. Create fails with INVALID_ARGUMENT for a non-finite score and
// for an unknown id outside the vocabulary.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_UNIGRAM_H_
#define MOONRING_DATA_TEXT_TOKENIZER_UNIGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/byte_trie.h"
#include "data/text/tokenizer/token_model.h"

namespace moonring::data {

struct UnigramPiece {
  absl::string_view text;
  double score = 0;
  bool in_texts = true;  // whether segmentations may use it
};

struct UnigramOptions {
  // by id; views are used by Create only. A repeated text has its last id and score
  std::vector<UnigramPiece> pieces;
  std::optional<int64_t> unknown;
  bool byte_fallback = false;
  bool fp32_sums = false;
};

class Unigram final : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<const Unigram>> Create(const UnigramOptions& options);

  std::unique_ptr<TokenModel::Workspace> NewWorkspace() const override;
  void Encode(absl::string_view word, TokenModel::Workspace& workspace,
              std::vector<int32_t>& ids) const override;

 private:
  struct Workspace;

  Unigram() = default;
  double Sum(double a, double b) const {
    return fp32_sums_ ? static_cast<double>(static_cast<float>(a + b)) : a + b;
  }
  void FindBest(absl::string_view word, Workspace& workspace) const;
  void AppendTokens(absl::string_view word, Workspace& workspace, std::vector<int32_t>& ids) const;
  void AppendUnknown(absl::string_view text, std::vector<int32_t>& ids) const;

  ByteTrie trie_;
  std::vector<double> scores_;
  std::array<int32_t, 256> byte_tokens_{};  // -1: none, or no byte_fallback
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
  bool fp32_sums_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_UNIGRAM_H_
