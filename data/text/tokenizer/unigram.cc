#include "data/text/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/tokenizer/word_memory.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr int32_t kUnreached = -1;

}  // namespace

struct Unigram::Workspace final : TokenModel::Workspace {
  struct End {  // best segmentation that ends at an index
    double sum = 0;
    int32_t begin = kUnreached;  // start of its last piece
    int32_t id = -1;
  };
  std::vector<End> ends;
  std::vector<int32_t> path;  // end indices of pieces, from the last to the first
  WordMemory memory;
};

absl::StatusOr<std::unique_ptr<const Unigram>> Unigram::Create(const UnigramOptions& options) {
  auto unigram = std::unique_ptr<Unigram>(new Unigram);
  unigram->fp32_sums_ = options.fp32_sums;
  unigram->vocabulary_.Reserve(options.pieces.size());
  unigram->scores_.reserve(options.pieces.size());
  std::vector<std::pair<absl::string_view, int32_t>> keys;
  double lowest = std::numeric_limits<double>::infinity();
  for (const UnigramPiece& piece : options.pieces) {
    const size_t id = unigram->scores_.size();
    if (!std::isfinite(piece.score))
      return absl::InvalidArgumentError(absl::StrCat("vocab[", id, "]: its score is not finite"));
    RETURN_IF_ERROR(unigram->vocabulary_.Add(piece.text, static_cast<int64_t>(id),
                                             Vocabulary::Repeats::kLastCounts));
    unigram->scores_.push_back(piece.score);
    if (!piece.in_texts) continue;
    RETURN_IF_ERROR(CheckTokenSize(piece.text, absl::StrCat("vocab[", id, "]")));
    lowest = std::min(lowest, piece.score);
    if (!piece.text.empty()) keys.emplace_back(piece.text, static_cast<int32_t>(id));
  }
  unigram->trie_ = ByteTrie(std::move(keys));
  unigram->unknown_score_ =
      std::isfinite(lowest) ? unigram->Sum(lowest, -kUnknownPenalty) : -kUnknownPenalty;
  if (options.unknown.has_value()) {
    const int64_t size = unigram->vocabulary_.size();
    if (*options.unknown < 0 || *options.unknown >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("unk_id ", *options.unknown, " is not one of the ", size, " pieces"));
    }
    unigram->unknown_ = static_cast<int32_t>(*options.unknown);
  }
  unigram->byte_tokens_.fill(-1);
  if (options.byte_fallback) unigram->byte_tokens_ = unigram->vocabulary_.ByteTokens();
  return unigram;
}

std::unique_ptr<TokenModel::Workspace> Unigram::NewWorkspace() const {
  return std::make_unique<Workspace>();
}

void Unigram::FindBest(absl::string_view word, Workspace& workspace) const {
  auto& ends = workspace.ends;
  ends.assign(word.size() + 1, {});
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    const double sum = Sum(score, ends[begin].sum);
    if (ends[end].begin == kUnreached || sum > ends[end].sum)
      ends[end] = {sum, static_cast<int32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    size_t next = begin;
    NextCodePoint(word, next);
    bool whole_character = false;
    int32_t node = ByteTrie::kRoot;
    for (size_t end = begin; end < word.size();) {
      node = trie_.Step(node, word[end++]);
      if (node == ByteTrie::kNone) break;
      const int32_t id = trie_.ValueAt(node);
      if (id == ByteTrie::kNone) continue;
      offer(begin, end, scores_[id], id);
      whole_character |= end == next;
    }
    if (!whole_character) offer(begin, next, unknown_score_, unknown_);
    begin = next;
  }
}

void Unigram::AppendUnknown(absl::string_view text, std::vector<int32_t>& ids) const {
  if (const auto id = vocabulary_.IdOf(text)) return ids.push_back(*id);
  const auto token_of = [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)]; };
  if (std::all_of(text.begin(), text.end(), [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : text) ids.push_back(token_of(byte));
  } else if (unknown_ >= 0) {
    ids.push_back(unknown_);
  }
}

void Unigram::AppendTokens(absl::string_view word, Workspace& workspace,
                           std::vector<int32_t>& ids) const {
  FindBest(word, workspace);
  const auto& ends = workspace.ends;
  auto& path = workspace.path;
  path.clear();
  for (size_t at = word.size(); at > 0; at = static_cast<size_t>(ends[at].begin))
    path.push_back(static_cast<int32_t>(at));
  for (size_t unknown_begin = 0, left = path.size(); left > 0; --left) {
    const auto end = static_cast<size_t>(path[left - 1]);
    const int32_t id = ends[end].id;
    if (id != unknown_) {
      ids.push_back(id);
      unknown_begin = end;
      // the last one of a run of unknown characters
    } else if (left == 1 || ends[path[left - 2]].id != unknown_) {
      AppendUnknown(word.substr(unknown_begin, end - unknown_begin), ids);
      unknown_begin = end;
    }
  }
}

void Unigram::Encode(absl::string_view word, TokenModel::Workspace& base,
                     std::vector<int32_t>& ids) const {
  auto& workspace = static_cast<Workspace&>(base);
  workspace.memory.Tokens(word, ids,
                          [&](std::vector<int32_t>& out) { AppendTokens(word, workspace, out); });
}

}  // namespace moonring::data
