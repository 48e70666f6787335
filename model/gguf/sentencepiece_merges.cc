#include "model/gguf/sentencepiece_merges.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace moonring::model {
namespace {

bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

struct Split {
  double score;
  int32_t left_size, right_size;  // in characters
  absl::string_view left, right;
};

}  // namespace

std::vector<std::pair<absl::string_view, absl::string_view>> SentencePieceMerges(
    const std::vector<SentencePiece>& pieces) {
  absl::flat_hash_set<absl::string_view> known;
  known.reserve(pieces.size());
  for (const SentencePiece& piece : pieces) known.insert(piece.text);
  std::vector<Split> splits;
  for (const SentencePiece& piece : pieces) {
    if (!piece.made) continue;
    const auto size =
        static_cast<int32_t>(std::count_if(piece.text.begin(), piece.text.end(), BeginsCharacter));
    int32_t left_size = 0;
    for (size_t at = 1; at < piece.text.size(); ++at) {
      if (!BeginsCharacter(piece.text[at])) continue;
      ++left_size;
      const absl::string_view left = piece.text.substr(0, at), right = piece.text.substr(at);
      if (known.contains(left) && known.contains(right))
        splits.push_back({piece.score, left_size, size - left_size, left, right});
    }
  }
  std::stable_sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_size != b.left_size) return a.left_size > b.left_size;
    return a.right_size > b.right_size;
  });
  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  merges.reserve(splits.size());
  for (const Split& split : splits) merges.emplace_back(split.left, split.right);
  return merges;
}

std::vector<double> SentencePieceScores(
    const std::vector<SentencePiece>& pieces,
    const std::vector<std::pair<std::string, std::string>>& merges) {
  // For each piece: the first and the last index in `merges` of a merge that produces it.
  absl::flat_hash_map<std::string, std::pair<size_t, size_t>> ranks;
  std::vector<std::string> joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    joined.push_back(merges[rank].first + merges[rank].second);
    ranks.try_emplace(joined.back(), rank, rank).first->second.second = rank;
  }
  // The score falls at each rank that comes after the last merges of all pieces that occurred
  // before.
  absl::flat_hash_map<std::string, double> scores;
  double score = -1;
  size_t end = 0;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    if (rank > end) score -= 1;
    end = std::max({end, rank, ranks.at(joined[rank]).second});
    scores[joined[rank]] = score;
  }
  std::vector<double> by_id;
  for (const SentencePiece& piece : pieces) {
    const auto found = scores.find(piece.text);
    by_id.push_back(found == scores.end() ? score - 1 : found->second);
  }
  return by_id;
}

}  // namespace moonring::model
