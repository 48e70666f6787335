#include "data/text/tokenizer_formats/tekken.h"

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"

namespace moonring::data {
namespace {

using nlohmann::json;

constexpr const char* kKnownSpecial[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "[INST]",
                                         "[/INST]",
                                         "[AVAILABLE_TOOLS]",
                                         "[/AVAILABLE_TOOLS]",
                                         "[TOOL_RESULTS]",
                                         "[/TOOL_RESULTS]",
                                         "[TOOL_CALLS]",
                                         "[IMG]",
                                         "<pad>",
                                         "[IMG_BREAK]",
                                         "[IMG_END]",
                                         "[PREFIX]",
                                         "[MIDDLE]",
                                         "[SUFFIX]",
                                         "[SYSTEM_PROMPT]",
                                         "[/SYSTEM_PROMPT]",
                                         "[TOOL_CONTENT]"};

absl::StatusOr<TiktokenRule> ReadRule(const json& document, const json& config, int64_t special,
                                      absl::string_view where) {
  TiktokenRule rule{.name = "tekken", .bos = "<s>", .eos = "</s>"};
  ASSIGN_OR_RETURN(rule.pattern, StringField(config, "pattern", absl::StrCat(where, ": config")));
  if (const auto listed = document.find("special_tokens");
      listed != document.end() && !listed->is_null()) {
    if (!listed->is_array())
      return WrongType(*listed, "an array", absl::StrCat(where, ": special_tokens"));
    for (size_t i = 0; i < listed->size(); ++i) {
      ASSIGN_OR_RETURN(
          std::string text,
          StringField((*listed)[i], "token_str", absl::StrCat(where, ": special_tokens[", i, "]")));
      rule.special_tokens.emplace_back(std::move(text), static_cast<int32_t>(i));
    }
  } else {
    for (const char* text : kKnownSpecial)
      rule.special_tokens.emplace_back(text, static_cast<int32_t>(rule.special_tokens.size()));
  }
  if (static_cast<int64_t>(rule.special_tokens.size()) > special) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", rule.special_tokens.size(),
                                                   " special tokens, and config says there are ",
                                                   special));
  }
  for (int64_t id = static_cast<int64_t>(rule.special_tokens.size()); id < special; ++id) {
    rule.special_tokens.emplace_back(absl::StrCat("<SPECIAL_", id, ">"), static_cast<int32_t>(id));
  }
  return rule;
}

}  // namespace

absl::StatusOr<Tekken> ParseTekken(absl::string_view text, absl::string_view where) {
  ASSIGN_OR_RETURN(const json document, ParseJson(text, where));
  ASSIGN_OR_RETURN(const json* config, ObjectField(document, "config", where));
  const std::string in_config = absl::StrCat(where, ": config");
  ASSIGN_OR_RETURN(const int64_t size, IntegerField(*config, "default_vocab_size", in_config));
  ASSIGN_OR_RETURN(const int64_t special,
                   IntegerField(*config, "default_num_special_tokens", in_config));
  ASSIGN_OR_RETURN(const json* vocab, ArrayField(document, "vocab", where));
  const int64_t words = size - special;
  // Unlisted special tokens are generated from their count, so a small file could request any
  // number of them.
  constexpr int64_t kMostIds = int64_t{1} << 24, kMostSpecial = int64_t{1} << 16;
  if (special < 0 || special > kMostSpecial || size > kMostIds || words < 0 ||
      words > static_cast<int64_t>(vocab->size())) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": config asks for ", size, " ids, ",
                                                   special, " of them special, and 'vocab' has ",
                                                   vocab->size(), " tokens"));
  }
  Tekken tekken;
  ASSIGN_OR_RETURN(tekken.rule, ReadRule(document, *config, special, where));
  for (int64_t i = 0; i < words; ++i) {
    const std::string place = absl::StrCat(where, ": vocab[", i, "]");
    ASSIGN_OR_RETURN(const int64_t rank, IntegerField((*vocab)[i], "rank", place));
    ASSIGN_OR_RETURN(const std::string bytes, StringField((*vocab)[i], "token_bytes", place));
    if (rank != i) return absl::InvalidArgumentError(absl::StrCat(place, ": has rank ", rank));
    auto& [token, id] = tekken.ranks.tokens.emplace_back();
    if (!absl::Base64Unescape(bytes, &token) || token.empty())
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": token_bytes are no bytes in base64"));
    id = special + rank;
  }
  return tekken;
}

}  // namespace moonring::data
