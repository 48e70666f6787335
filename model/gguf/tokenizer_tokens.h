#ifndef MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_
#define MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_

// The tokens of a Hugging Face BPE tokenizer in the form of GGUF: text and type of each token id,
// the merges, and properties of added tokens.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/gguf/gguf_token_type.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

struct TokenizerTokens {
  std::vector<std::string> texts;
  std::vector<GgufTokenType> types;
  std::vector<std::pair<std::string, std::string>> merges;
  // `stripping`: texts of added tokens that strip adjacent spaces (lstrip, rstrip) or match only
  // whole words. `normalized`: texts of added tokens that are matched in the normalized text.
  std::vector<std::string> stripping, normalized;

  std::optional<int64_t> IdOf(absl::string_view text) const;
};

// Reads tokenizer.json and tokenizer_config.json, both objects. The result has `rows` tokens; an id
// that the tokenizer lacks, for example 12, becomes an unused token "[PAD12]". UNIMPLEMENTED for
// another model than BPE, or one with prefixes, suffixes or dropout; INVALID_ARGUMENT for an id of
// `rows` or more, or fields of other types.
absl::StatusOr<TokenizerTokens> ReadTokenizerTokens(const nlohmann::json& tokenizer,
                                                    const nlohmann::json& config, int64_t rows);

// Text of the token under `key` in tokenizer_config.json, which may be a string or an object with
// "content"; "" if the key is missing.
std::string NamedToken(const nlohmann::json& config, const char* key);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_
