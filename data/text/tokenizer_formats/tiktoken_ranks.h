// Rank files of tiktoken: a line a token, its bytes in base64 and its rank, which is its id (Llama
// 3's tokenizer.model, qwen.tiktoken, cl100k, ...).
//
// They hold neither the pattern that cuts texts into words nor the special tokens:
// data/text/tokenizer_formats/tiktoken_rules.h knows them. Fails with INVALID_ARGUMENT (naming
// `where` and the line) on what is not base64 and a rank, and on two tokens of one rank or text.
// Cost: linear.
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

// Whether `text` begins as such a file does.
bool LooksLikeTiktokenRanks(absl::string_view text);

// Byte-level BPE: of all neighbours that join to a token, those of the lowest rank are joined
// first; a word that is a token is that token.
absl::StatusOr<std::unique_ptr<const TokenModel>> TiktokenTokenModel(const TiktokenRanks& ranks);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TIKTOKEN_RANKS_H_
