#include "data/tiktoken_ranks.h"

#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "comm/status_macros.h"
#include "data/bpe.h"
#include "data/byte_alphabet.h"

namespace moonring::data {
namespace {

using nlohmann::json;
using SpecialTokens = std::vector<std::pair<std::string, int32_t>>;

constexpr const char* kLlama3Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenPattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// White space at the end of a text is one word, line ends or not.
constexpr const char* kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kPattern = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
                                      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
                                      R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kEndOfText = "<|endoftext|>";

// Consecutive ids from `first` on: the names, then STEM0|>, STEM1|>, ... up to `end`.
SpecialTokens Consecutive(int32_t first, std::vector<std::string> names, const std::string& stem = "", int32_t numbered_from = 0, int32_t end = 0) {
  SpecialTokens tokens;
  int32_t id = first;
  for (std::string& name : names) tokens.emplace_back(std::move(name), id++);
  for (int32_t number = numbered_from; id < end; ++number) tokens.emplace_back(absl::StrCat(stem, number, "|>"), id++);
  return tokens;
}

SpecialTokens Llama3Tokens() {  // of Llama 3.1 and later; 3 has reserved ones for three of these names
  const std::string reserved = "<|reserved_special_token_";
  return Consecutive(128000,
                     {"<|begin_of_text|>", "<|end_of_text|>", reserved + "0|>", reserved + "1|>", "<|finetune_right_pad_id|>", reserved + "2|>",
                      "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"},
                     reserved, /*numbered_from=*/3, /*end=*/128256);
}

SpecialTokens QwenTokens() { return Consecutive(151643, {kEndOfText, "<|im_start|>", "<|im_end|>"}, "<|extra_", /*numbered_from=*/0, /*end=*/151851); }

struct Known {
  size_t tokens;
  TiktokenRule (*rule)();
};

constexpr Known kKnown[] = {
    {50256,
     [] {
       return TiktokenRule{.name = "gpt2", .special_tokens = {{kEndOfText, 50256}}, .bos = kEndOfText, .eos = kEndOfText};
     }},
    {50280,
     [] {
       return TiktokenRule{.name = "p50k", .special_tokens = {{kEndOfText, 50256}}, .bos = kEndOfText, .eos = kEndOfText};
     }},
    {100256,
     [] {
       SpecialTokens special = Consecutive(100257, {kEndOfText, "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"});
       special.emplace_back("<|endofprompt|>", 100276);
       return TiktokenRule{.name = "cl100k", .pattern = kCl100kPattern, .special_tokens = std::move(special), .eos = kEndOfText};
     }},
    {128000,
     [] {
       return TiktokenRule{.name = "llama3", .pattern = kLlama3Pattern, .special_tokens = Llama3Tokens(), .bos = "<|begin_of_text|>", .eos = "<|end_of_text|>"};
     }},
    {151643, [] { return TiktokenRule{.name = "qwen", .pattern = kQwenPattern, .nfc = true, .special_tokens = QwenTokens(), .eos = kEndOfText}; }},
    {199998,
     [] {
       return TiktokenRule{.name = "o200k", .pattern = kO200kPattern, .special_tokens = {{kEndOfText, 199999}, {"<|endofprompt|>", 200018}}, .eos = kEndOfText};
     }},
};

// A line's token and rank.
bool ParseLine(absl::string_view line, std::string& token, int64_t& rank) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  return parts.size() == 2 && !parts[0].empty() && absl::Base64Unescape(parts[0], &token) && !token.empty() && absl::SimpleAtoi(parts[1], &rank);
}

}  // namespace

bool LooksLikeTiktokenRanks(absl::string_view text) {
  constexpr size_t kLongestLine = 1024;
  std::string token;
  int64_t rank = 0;
  const absl::string_view line = text.substr(0, std::min(text.find('\n'), kLongestLine));
  return ParseLine(absl::StripSuffix(line, "\r"), token, rank);
}

absl::StatusOr<TiktokenRanks> TiktokenRanks::Parse(absl::string_view text, absl::string_view where) {
  TiktokenRanks ranks;
  absl::flat_hash_set<std::string> texts;
  absl::flat_hash_set<int64_t> taken;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    const auto wrong = [&](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(where, ":", number, ": ", what)); };
    auto& [token, rank] = ranks.tokens.emplace_back();
    if (!ParseLine(line, token, rank)) return wrong("wanted a token's bytes in base64, a space and its rank");
    if (!texts.insert(token).second) return wrong("the token comes twice");
    if (!taken.insert(rank).second) return wrong(absl::StrCat("rank ", rank, " comes twice"));
  }
  return ranks;
}

absl::StatusOr<TiktokenRule> FindTiktokenRule(const TiktokenRanks& ranks, absl::string_view where) {
  std::string known;
  for (const Known& candidate : kKnown) {
    if (ranks.tokens.size() == candidate.tokens) return candidate.rule();
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.tokens, " (", candidate.rule().name, ")");
  }
  return absl::UnimplementedError(absl::StrCat(where, ": ranks of ", ranks.tokens.size(), " tokens: how they cut texts is known of files with ", known,
                                               " tokens only; a tokenizer.json beside it would say"));
}

json TiktokenStages(const TiktokenRule& rule) {
  json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", rule.pattern.empty()}};
  json pre_tokenizer = byte_level;
  if (!rule.pattern.empty()) {
    const json split = {{"type", "Split"}, {"pattern", {{"Regex", rule.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}};
  }
  return {{"normalizer", rule.nfc ? json({{"type", "NFC"}}) : json()}, {"pre_tokenizer", pre_tokenizer}, {"decoder", {{"type", "ByteLevel"}}}};
}

absl::StatusOr<std::unique_ptr<const TokenModel>> TiktokenTokenModel(const TiktokenRanks& ranks) {
  std::vector<std::string> letters;
  letters.reserve(ranks.tokens.size());
  BpeOptions options;
  options.alphabet = BpeAlphabet::kBytes;
  options.ignore_merges = true;
  int64_t end = 0;
  for (const auto& [token, rank] : ranks.tokens) {
    options.vocabulary.emplace_back(letters.emplace_back(LettersOfBytes(token)), rank);
    end = std::max(end, rank + 1);
  }
  constexpr int64_t kMostIds = int64_t{1} << 24;  // data/vocabulary.h says which rank is too large
  for (int64_t id = 0; id < std::min(end, kMostIds); ++id) options.token_ranks.push_back(static_cast<int32_t>(id));
  ASSIGN_OR_RETURN(auto made, Bpe::Create(options));
  return made;
}

}  // namespace moonring::data
