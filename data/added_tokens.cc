#include "data/added_tokens.h"

#include <algorithm>

#include "data/utf8.h"

namespace moonring::data {
namespace {

bool EndsWithWord(absl::string_view text) {
  if (text.empty()) return false;
  size_t at = PreviousCodePoint(text, text.size());
  return IsWordCharacter(NextCodePoint(text, at));
}

bool BeginsWithWord(absl::string_view text) {
  size_t at = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, at));
}

size_t BeginOfTrailingSpace(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t previous = PreviousCodePoint(text, begin);
    size_t at = previous;
    if (!IsWhiteSpace(NextCodePoint(text, at))) break;
    begin = previous;
  }
  return begin;
}

size_t EndOfLeadingSpace(absl::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size() && IsWhiteSpace(NextCodePoint(text, at));) end = at;
  return end;
}

}  // namespace

void TokenSearch::Add(absl::string_view contents, Pattern pattern) {
  if (contents.empty()) return;
  begins_[static_cast<uint8_t>(contents[0])] = true;
  int node = 0;
  for (const char byte : contents) {
    const auto& next = nodes_[node].next;
    const auto found = std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == byte; });
    if (found != next.end()) {
      node = found->second;
      continue;
    }
    const int made = static_cast<int>(nodes_.size());
    nodes_[node].next.emplace_back(byte, made);
    nodes_.emplace_back();
    node = made;
  }
  if (nodes_[node].pattern >= 0) return;
  nodes_[node].pattern = static_cast<int>(patterns_.size());
  patterns_.push_back(std::move(pattern));
}

std::pair<int, size_t> TokenSearch::LongestAt(absl::string_view text, size_t at) const {
  std::pair<int, size_t> longest{-1, at};
  int node = 0;
  while (at < text.size()) {
    const auto& next = nodes_[node].next;
    const auto found = std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == text[at]; });
    if (found == next.end()) break;
    node = found->second;
    ++at;
    if (nodes_[node].pattern >= 0) longest = {nodes_[node].pattern, at};
  }
  return longest;
}

void TokenSearch::Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> on_text, absl::FunctionRef<void(int32_t)> on_token) const {
  size_t told = 0;  // text up to here was visited
  for (size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const auto [pattern, match_end] = LongestAt(text, at);
    if (pattern < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = patterns_[pattern].token;
    size_t begin = at, end = match_end;
    at = match_end;
    if (token.single_word && (EndsWithWord(text.substr(0, begin)) || BeginsWithWord(text.substr(end)))) continue;
    if (token.lstrip) begin = std::max(BeginOfTrailingSpace(text.substr(0, begin)), told);
    if (token.rstrip) end += EndOfLeadingSpace(text.substr(end));
    if (told < begin) on_text(text.substr(told, begin - told));
    on_token(patterns_[pattern].id);
    told = end;
  }
  if (told < text.size()) on_text(text.substr(told));
}

std::optional<int32_t> AddedTokens::Add(const AddedToken& token) {
  if (token.content.empty()) return std::nullopt;
  if (const auto known = ids_.find(token.content); known != ids_.end()) {
    if (token.special) by_id_[known->second].special = true;
    return known->second;
  }
  std::optional<int32_t> id = model_->IdOf(token.content);
  if (!id.has_value()) {
    ++new_tokens_;
    id = static_cast<int32_t>(model_->size());
    if (!by_id_.empty()) id = std::max(*id, by_id_.rbegin()->first + 1);
  }
  ids_.emplace(token.content, *id);
  by_id_.emplace(*id, token);
  return id;
}

void AddedTokens::Build(const Normalizer& normalizer) {
  as_it_comes_ = TokenSearch();
  normalized_ = TokenSearch();
  for (const auto& [id, token] : by_id_) {
    std::string storage;
    if (token.normalized) {
      normalized_.Add(normalizer.Normalize(token.content, storage), {token, id});
    } else {
      as_it_comes_.Add(token.content, {token, id});
    }
  }
}

void AddedTokens::Split(absl::string_view text, const Normalizer& normalizer, absl::FunctionRef<void(absl::string_view, bool)> on_text,
                        absl::FunctionRef<void(int32_t)> on_token) const {
  std::string storage;
  const auto split_normalized = [&](absl::string_view part) {
    const absl::string_view normalized = normalizer.Normalize(part, storage);
    const auto on_part = [&](absl::string_view piece) { on_text(piece, part.data() == text.data() && piece.data() == normalized.data()); };
    normalized_.Split(normalized, on_part, on_token);
  };
  as_it_comes_.Split(text, split_normalized, on_token);
}

std::optional<int32_t> AddedTokens::IdOf(absl::string_view content) const {
  const auto found = ids_.find(content);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace moonring::data
