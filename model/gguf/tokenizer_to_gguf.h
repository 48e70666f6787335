#ifndef MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_

// A Hugging Face folder's tokenizer as a GGUF file's metadata (tokenizer.ggml.*,
// tokenizer.chat_template): the way back from gguf_tokenizer.h.
//
//   gpt2    byte-level BPE whose way of cutting texts has a name there (gguf_splitting_rules.h)
//   llama   BPE over characters with byte fallback, as sentencepiece's, whose merges scores can say
//           (sentencepiece_merges.h)
//   none    a folder without a tokenizer: token ids of config.json alone
//
// Any other one is UNIMPLEMENTED, with the part of tokenizer.json that has no form in GGUF. Rows of
// the embedding that no token has are tokens "[PAD12]" of type "unused". Special tokens are those
// that tokenizer.json or tokenizer_config.json call so. add_bos_token is tokenizer_config.json's,
// or what the post-processor does, or Llama's and Gemma's classes by themselves. eos is the
// tokenizer's; a further one of generation_config.json is eot.

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
  std::vector<std::string> notes;  // what a GGUF file does not say, a line each
};

// `files`: name -> contents, others among them. `where` opens messages. INVALID_ARGUMENT where a
// token's id has no row in the embedding.
absl::StatusOr<TokenizerMetadata> TokenizerToGguf(const std::map<std::string, std::string>& files,
                                                  const ModelConfig& config,
                                                  absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TOKENIZER_TO_GGUF_H_
