#ifndef MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_

// A tokenizer.json of sentencepiece's kind (BPE over characters, spaces as U+2581, byte fallback)
// as tokenizer.ggml.model "llama": pieces with scores in place of merges.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/gguf/gguf_writer.h"
#include "model/gguf/tokenizer_tokens.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

// Adds the model's name, whether a space comes first, tokens and scores; and sets the types of
// bytes and of the unknown token. UNIMPLEMENTED where stages of the tokenizer do something that the
// kind does not, or where no scores lead to its merges.
absl::Status AddPieces(const nlohmann::json& tokenizer, TokenizerTokens& tokens,
                       GgufMetadata& metadata, std::vector<std::string>& notes);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_PIECES_TO_GGUF_H_
