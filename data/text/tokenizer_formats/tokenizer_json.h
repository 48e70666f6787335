// The parts of a tokenizer.json that are plain data: the model, the added tokens. `where` names the
// part in messages.
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

// Of "model"; for old files that leave it out, what its fields are those of. UNIMPLEMENTED, by
// name, where it is none of BPE, Unigram and WordPiece.
absl::StatusOr<std::string> ModelTypeOf(const nlohmann::json& model, absl::string_view where);

// "model". BPE takes bytes where `byte_level` (the pre-tokenizer gives them); its merges come as "a
// b" or ["a", "b"]. Switches that change the ids and are not known are refused by name.
absl::StatusOr<std::unique_ptr<const TokenModel>> ModelFromJson(const nlohmann::json& model,
                                                                bool byte_level,
                                                                absl::string_view where);

// {"content": ..., "lstrip": ..., ...}, or a string, which is special.
absl::StatusOr<AddedToken> AddedTokenFromJson(const nlohmann::json& token, absl::string_view where);

// merges.txt (or vocab.bpe) as the array of a tokenizer.json: a line a merge, the first may be
// "#version: ...".
nlohmann::json MergesFromText(absl::string_view merges_txt);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TOKENIZER_JSON_H_
