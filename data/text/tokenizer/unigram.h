// The Unigram model (Kudo 2018, arXiv 1804.10959): of all ways to cut a word into pieces of the
// vocabulary, the one whose scores (log-probabilities) have the largest sum, by Viterbi's
// algorithm.
//
//   best(0) = 0,  best(j) = max over pieces w = word[i, j) of best(i) + score(w)
//
// A character that is no piece by itself may be passed over as unknown, at 10 less than the lowest
// score. Neighbouring unknown ones are one token: that of their joined text where there is one,
// else with byte_fallback the tokens <0x00> to <0xFF> of its bytes where the vocabulary has all of
// these, else `unknown`, or nothing where none is named (the tokenizers library then raises an
// error).
// Of equal sums the one found first stays: pieces are tried by their beginning, then by their
// length. Sums are rounded as the peer's are, since that settles which of two orders of the same
// pieces wins: to fp64 (tokenizers' encode_optimized) or to fp32 (sentencepiece).
//
// Cost: linear in the word times the longest piece; a word seen before is a look-up. Memory: 16
// bytes a byte of the longest word. Create fails with INVALID_ARGUMENT on a score that is not
// finite, and an unknown id that is not in the vocabulary.
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
  bool in_texts = true;  // whether a word may be cut into it
};

struct UnigramOptions {
  std::vector<UnigramPiece> pieces;  // by id. The texts are read by Create only; one that comes
                                     // again has its last id and score
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
  std::array<int32_t, 256> byte_tokens_{};  // -1 where there is none, or no byte_fallback
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
  bool fp32_sums_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_UNIGRAM_H_
