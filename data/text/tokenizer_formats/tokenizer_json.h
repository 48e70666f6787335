// Parses the sections of a tokenizer.json that are plain data: the model and the added tokens.
// `where` names the section in messages.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TOKENIZER_JSON_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TOKENIZER_JSON_H_

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer/added_tokens.h"
#include "data/text/tokenizer/token_model.h"

namespace moonring::data {

// The type in "model"; in old files without one, it is inferred from the fields. UNIMPLEMENTED,
// with the name, if it is not BPE, Unigram or WordPiece.
absl::StatusOr<std::string> ModelTypeOf(const nlohmann::json& model, absl::string_view where);

// Reads "model". With `byte_level` (from the pre-tokenizer), BPE works on bytes. Merges are "a b"
// or ["a", "b"]. Unknown options that change the ids are errors that name them.
absl::StatusOr<std::unique_ptr<const TokenModel>> ModelFromJson(const nlohmann::json& model,
                                                                bool byte_level,
                                                                absl::string_view where);

// Reads {"content": ..., "lstrip": ..., ...}, or a string, which is a special token.
absl::StatusOr<AddedToken> AddedTokenFromJson(const nlohmann::json& token, absl::string_view where);

// Converts merges.txt (or vocab.bpe) to the array of a tokenizer.json: one merge per line; the
// first line may be "#version: ...".
nlohmann::json MergesFromText(absl::string_view merges_txt);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TOKENIZER_JSON_H_
