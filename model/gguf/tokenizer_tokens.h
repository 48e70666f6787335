#ifndef MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_
#define MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_

// The tokens of a Hugging Face folder's BPE tokenizer, by id, as a GGUF file lists them: texts,
// types, merges, and what is said of added tokens beside their text.

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
  // Added tokens, by their text, that take spaces beside them (lstrip, rstrip), want a word to
  // themselves, or are looked for in the normalized text.
  std::vector<std::string> stripping, normalized;

  std::optional<int64_t> IdOf(absl::string_view text) const;
};

// Of tokenizer.json and tokenizer_config.json, both objects, with `rows` tokens: those that no text
// has are "[PAD12]", unused. UNIMPLEMENTED for another model than BPE, or one with prefixes,
// suffixes or dropout; INVALID_ARGUMENT for an id beyond the rows, or fields of other types.
absl::StatusOr<TokenizerTokens> ReadTokenizerTokens(const nlohmann::json& tokenizer,
                                                    const nlohmann::json& config, int64_t rows);

// A token as tokenizer_config.json names it: a string, or an object with its content; "": none.
std::string NamedToken(const nlohmann::json& config, const char* key);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TOKENIZER_TOKENS_H_
