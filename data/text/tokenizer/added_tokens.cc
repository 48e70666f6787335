#include "data/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/text/unicode/utf8.h"

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

}  // namespace

void TokenSearch::Add(absl::string_view contents, Pattern pattern) {
  if (contents.empty()) return;
  begins_[static_cast<uint8_t>(contents[0])] = true;
  int node = 0;
  for (const char byte : contents) {
    const auto& next = nodes_[node].next;
    const auto found = std::find_if(next.begin(), next.end(),
                                    [&](const auto& edge) { return edge.first == byte; });
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
    const auto found = std::find_if(next.begin(), next.end(),
                                    [&](const auto& edge) { return edge.first == text[at]; });
    if (found == next.end()) break;
    node = found->second;
    ++at;
    if (nodes_[node].pattern >= 0) longest = {nodes_[node].pattern, at};
  }
  return longest;
}

void TokenSearch::Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> on_text,
                        absl::FunctionRef<void(int32_t)> on_token) const {
  size_t done = 0;  // end of the visited text
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
    if (patterns_[pattern].ignored) continue;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || BeginsWithWord(text.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(BeginOfTrailingSpace(text.substr(0, begin)), done);
    if (token.rstrip) end += EndOfLeadingSpace(text.substr(end));
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(patterns_[pattern].id);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

int32_t AddedTokens::next_free_id() const {
  const int32_t behind_added = by_id_.empty() ? 0 : by_id_.rbegin()->first + 1;
  int32_t id = std::max(static_cast<int32_t>(model_->size()), behind_added);
  while (model_->TokenOf(id) != nullptr) ++id;  // the model's ids may have gaps
  return id;
}

std::optional<int32_t> AddedTokens::Add(const AddedToken& token, std::optional<int32_t> wanted) {
  if (token.content.empty()) return std::nullopt;
  if (const auto known = ids_.find(token.content); known != ids_.end()) {
    if (token.special) by_id_[known->second].special = true;
    return known->second;
  }
  std::optional<int32_t> id = model_->IdOf(token.content);
  if (!id.has_value()) {
    ++new_tokens_;
    const bool free = wanted.has_value() && *wanted >= 0 && model_->TokenOf(*wanted) == nullptr &&
                      !by_id_.contains(*wanted);
    id = free ? *wanted : next_free_id();
  }
  ids_.emplace(token.content, *id);
  by_id_.emplace(*id, token);
  return id;
}

std::optional<int32_t> AddedTokens::AddLater(const AddedToken& token) {
  const auto known = ids_.find(token.content);
  if (known == ids_.end()) return Add(token);
  AddedToken& held = by_id_[known->second];
  if (held == token) return std::nullopt;
  if (token.special && !held.special) held = token;
  return known->second;
}

void AddedTokens::Build(const Normalizer& normalizer, bool split_special) {
  as_it_comes_ = TokenSearch();
  normalized_ = TokenSearch();
  for (const auto& [id, token] : by_id_) {
    const TokenSearch::Pattern pattern{token, id, split_special && token.special};
    std::string storage;
    if (!token.normalized) {
      as_it_comes_.Add(token.content, pattern);
    } else {
      normalized_.Add(token.verbatim ? token.content : normalizer.Normalize(token.content, storage),
                      pattern);
    }
  }
}

void AddedTokens::Split(absl::string_view text, const Normalizer& normalizer,
                        absl::FunctionRef<void(absl::string_view, bool)> on_text,
                        absl::FunctionRef<void(int32_t)> on_token) const {
  std::string storage;
  const auto split_normalized = [&](absl::string_view part) {
    const absl::string_view normalized = normalizer.Normalize(part, storage);
    const auto on_part = [&](absl::string_view piece) {
      on_text(piece, part.data() == text.data() && piece.data() == normalized.data());
    };
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
