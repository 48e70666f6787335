#ifndef MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_
#define MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_

// The merges that a sentencepiece vocabulary (of its BPE kind) implies.
//
// Sentencepiece joins the two neighbours whose joined text is the piece of highest score. So every
// split of a piece into two pieces is a merge; they are ordered by the piece's score, falling. Ties
// as Transformers' converters settle them: the longer left part, then the longer right part (in
// characters), then the lower id.
//
// Cost: two look-ups for each character of the vocabulary and one sort: about 0.4 s for 262,144
// pieces.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::model {

inline constexpr char kSentencePieceSpace[] = "\u2581";  // a space in a piece

struct SentencePiece {
  absl::string_view text;
  double score = 0;
  bool made = true;  // whether merging may lead to it
};

// By id in, by rank out; views of the pieces' texts.
std::vector<std::pair<absl::string_view, absl::string_view>> SentencePieceMerges(
    const std::vector<SentencePiece>& pieces);

// The way back: scores below 0 that lead to `merges`, falling from -1 with the rank of a piece's
// first merge; pieces whose merges stand among one another's have one score. Those that no merge
// leads to have the lowest. Other merges than SentencePieceMerges makes of the pieces (that are
// made) and these scores cannot be said by scores: compare.
//
// By id and by rank in, by id out.
std::vector<double> SentencePieceScores(
    const std::vector<SentencePiece>& pieces,
    const std::vector<std::pair<std::string, std::string>>& merges);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_SENTENCEPIECE_MERGES_H_
