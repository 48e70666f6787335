#include "data/text/tokenizer_formats/tiktoken_ranks.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "data/text/tokenizer/bpe.h"
#include "data/text/tokenizer/byte_alphabet.h"
#include "data/text/tokenizer/vocabulary.h"

namespace moonring::data {
namespace {

// Parses the token and the rank of a line.
bool ParseLine(absl::string_view line, std::string& token, int64_t& rank) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  return parts.size() == 2 && !parts[0].empty() && absl::Base64Unescape(parts[0], &token) &&
         !token.empty() && absl::SimpleAtoi(parts[1], &rank);
}

}  // namespace

bool LooksLikeTiktokenRanks(absl::string_view text) {
  constexpr size_t kLongestLine = 1024;
  std::string token;
  int64_t rank = 0;
  const absl::string_view line = text.substr(0, std::min(text.find('\n'), kLongestLine));
  return ParseLine(absl::StripSuffix(line, "\r"), token, rank);
}

absl::StatusOr<TiktokenRanks> TiktokenRanks::Parse(absl::string_view text,
                                                   absl::string_view where) {
  TiktokenRanks ranks;
  absl::flat_hash_set<std::string> texts;
  absl::flat_hash_set<int64_t> taken;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(where, ":", number, ": ", what));
    };
    auto& [token, rank] = ranks.tokens.emplace_back();
    if (!ParseLine(line, token, rank))
      return wrong("expected a token's bytes in base64, a space and its rank");
    if (!texts.insert(token).second) return wrong("the token comes twice");
    if (!taken.insert(rank).second) return wrong(absl::StrCat("rank ", rank, " comes twice"));
  }
  return ranks;
}

absl::StatusOr<std::unique_ptr<const TokenModel>> TiktokenTokenModel(const TiktokenRanks& ranks) {
  std::vector<std::string> letters;
  letters.reserve(ranks.tokens.size());
  BpeOptions options;
  options.alphabet = BpeAlphabet::kBytes;
  options.ignore_merges = true;
  int64_t last = 0;
  for (const auto& [token, rank] : ranks.tokens) {
    options.vocabulary.emplace_back(letters.emplace_back(LettersOfBytes(token)), rank);
    last = std::max(last, rank);
  }
  last =
      std::min(last, Vocabulary::LargestId(ranks.tokens.size()));  // larger ids are rejected below
  for (int64_t id = 0; id <= last; ++id) options.token_ranks.push_back(static_cast<int32_t>(id));
  ASSIGN_OR_RETURN(auto made, Bpe::Create(options));
  return made;
}

}  // namespace moonring::data
