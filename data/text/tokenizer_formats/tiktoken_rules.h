// What a tokenizer needs in addition to tiktoken's file of its tokens and their ranks
// (tiktoken_ranks.h): the pattern that splits texts into words, and the special tokens.
//
// Both are stored in this program for the files of published models, which are recognized by their
// number of tokens. UNIMPLEMENTED, with a list of these files, for a file with any other number.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RULES_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RULES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer_formats/tiktoken_ranks.h"

namespace moonring::data {

struct TiktokenRule {
  std::string name;
  std::string pattern;  // empty: GPT-2's
  bool nfc = false;     // normalize texts to NFC first
  std::vector<std::pair<std::string, int32_t>> special_tokens;
  std::string bos, eos;  // bos may be empty
};

absl::StatusOr<TiktokenRule> FindTiktokenRule(const TiktokenRanks& ranks, absl::string_view where);

// "normalizer", "pre_tokenizer" and "decoder", as in a tokenizer.json.
nlohmann::json TiktokenStages(const TiktokenRule& rule);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RULES_H_
