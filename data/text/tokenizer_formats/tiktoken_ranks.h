// Rank files of tiktoken: one token per line, its bytes in base64 and its rank, which is its id
// (Llama 3's tokenizer.model, qwen.tiktoken, cl100k, ...).
//
// The files contain neither the pattern that splits texts into words nor the special tokens: see
// data/text/tokenizer_formats/tiktoken_rules.h. Fails with INVALID_ARGUMENT (naming `where` and the
// line) for a malformed line, and for a duplicate rank or token. Cost: linear.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RANKS_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RANKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/token_model.h"

namespace moonring::data {

struct TiktokenRanks {
  static absl::StatusOr<TiktokenRanks> Parse(absl::string_view text, absl::string_view where);

  std::vector<std::pair<std::string, int64_t>> tokens;  // bytes, rank
};

// Whether `text` begins like a rank file.
bool LooksLikeTiktokenRanks(absl::string_view text);

// Byte-level BPE: repeatedly merges the adjacent pair whose concatenation is the token of the
// lowest rank. A word that is a token itself is encoded as that token.
absl::StatusOr<std::unique_ptr<const TokenModel>> TiktokenTokenModel(const TiktokenRanks& ranks);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RANKS_H_
