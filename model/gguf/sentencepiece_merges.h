#ifndef MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_
#define MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_

// Computes the BPE merges that a sentencepiece vocabulary with scores (of the BPE kind) implies.
//
// Sentencepiece joins the two neighbours whose concatenation is the piece with the highest score.
// So every split of a piece into two pieces is a merge, and merges are ordered by falling score of
// the piece. Ties are resolved as in Transformers' converters: the longer left half first, then the
// longer right half (in characters), then the lower id.
//
// Cost: two look-ups per character of the vocabulary and one sort: about 0.4 s for 262,144 pieces.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::model {

inline constexpr char kSentencePieceSpace[] = "\u2581";  // represents a space in a piece

struct SentencePiece {
  absl::string_view text;
  double score = 0;
  bool made = true;  // whether merging may produce the piece
};

// `pieces` is indexed by token id. Returns the merges (pairs of pieces) in order of priority, as
// views of the texts in `pieces`.
std::vector<std::pair<absl::string_view, absl::string_view>> SentencePieceMerges(
    const std::vector<SentencePiece>& pieces);

// The reverse of SentencePieceMerges: computes scores below 0 that imply `merges`. Scores fall from
// -1 with the rank of a piece's first merge; pieces whose merges are interleaved get the same
// score. Pieces that no merge produces get the lowest score. Not all merges can be expressed by
// scores: the caller must recompute SentencePieceMerges from these scores and compare.
//
// `pieces` is indexed by token id, and `merges` are in order of priority. Returns one score per
// token id.
std::vector<double> SentencePieceScores(
    const std::vector<SentencePiece>& pieces,
    const std::vector<std::pair<std::string, std::string>>& merges);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_
