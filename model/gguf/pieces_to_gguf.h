#ifndef MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_

// Converts a tokenizer.json of sentencepiece's kind (BPE over characters, spaces as U+2581, byte
// fallback) to tokenizer.ggml.model "llama", which has scores of pieces instead of merges.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/gguf/gguf_writer.h"
#include "model/gguf/tokenizer_tokens.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

// Adds the model's name, add_space_prefix, tokens and scores to `metadata`, and sets the types of
// byte tokens and of the unknown token. Adds to `notes` properties that GGUF cannot represent.
// UNIMPLEMENTED if the tokenizer has stages that sentencepiece does not have, or if no scores
// reproduce its merges.
absl::Status AddPieces(const nlohmann::json& tokenizer, TokenizerTokens& tokens,
                       GgufMetadata& metadata, std::vector<std::string>& notes);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_
