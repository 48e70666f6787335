#ifndef MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_

// Converts a Hugging Face folder's tokenizer to a GGUF file's metadata (tokenizer.ggml.*,
// tokenizer.chat_template): the reverse of gguf_tokenizer.h.
//
//   gpt2    byte-level BPE whose splitting rule has a GGUF name (gguf_splitting_rules.h)
//   llama   BPE over characters with byte fallback, as in sentencepiece, whose merges can be
//           expressed by scores (sentencepiece_merges.h)
//   none    a folder without a tokenizer: only the token ids of config.json
//
// Any other tokenizer is UNIMPLEMENTED; the message names the component of tokenizer.json that GGUF
// cannot represent. Rows of the embedding without a token become tokens "[PAD12]" of type "unused".
// Special tokens are those marked so in tokenizer.json or tokenizer_config.json. add_bos_token is
// taken from tokenizer_config.json, or from the post-processor, or is the default of the Llama and
// Gemma classes. eos is the tokenizer's; another one in generation_config.json becomes eot.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"
#include "model/gguf/gguf_writer.h"

namespace moonring::model {

struct TokenizerMetadata {
  GgufMetadata metadata;
  std::vector<std::string> notes;  // properties that are lost in GGUF, one line each
};

// `files` maps file names to contents; files of no tokenizer are ignored. Error messages begin with
// `where`. INVALID_ARGUMENT if a token's id has no row in the embedding.
absl::StatusOr<TokenizerMetadata> TokenizerToGguf(const std::map<std::string, std::string>& files,
                                                  const ModelConfig& config,
                                                  absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_
