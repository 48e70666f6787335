#include "data/text/tokenizer/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace moonring::data {

absl::Status CheckTokenSize(absl::string_view token, absl::string_view where) {
  constexpr size_t kMost = 1000;
  if (token.size() <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": a token of ", token.size(), " bytes; expected at most ", kMost));
}

int64_t Vocabulary::LargestId(size_t tokens) {
  constexpr size_t kGaps = size_t{1} << 20, kAllIds = size_t{1} << 24;
  return static_cast<int64_t>(std::min(tokens + kGaps, kAllIds)) - 1;
}

absl::Status Vocabulary::Add(absl::string_view token, int64_t id, Repeats repeats) {
  if (id < 0 || id > largest_id_)
    return absl::InvalidArgumentError(
        absl::StrCat("vocab: token \"", token, "\" has id ", id, ", expected 0 to ", largest_id_));
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  if (tokens_[id].has_value())
    return absl::InvalidArgumentError(
        absl::StrCat("vocab: tokens \"", *tokens_[id], "\" and \"", token, "\" both have id ", id));
  const auto [known, is_new] = ids_.emplace(token, static_cast<int32_t>(id));
  if (!is_new && repeats == Repeats::kRefused)
    return absl::InvalidArgumentError(absl::StrCat("vocab: token \"", token, "\" comes twice"));
  known->second = static_cast<int32_t>(id);
  tokens_[id] = std::string(token);
  ++size_;
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::IdOf(absl::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::TokenOf(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size() || !tokens_[id].has_value())
    return nullptr;
  return &*tokens_[id];
}

std::array<int32_t, 256> Vocabulary::ByteTokens() const {
  std::array<int32_t, 256> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens[byte] = IdOf(absl::StrFormat("<0x%02X>", byte)).value_or(-1);
  return tokens;
}

}  // namespace moonring::data
