#ifndef MOONRING_MODEL_GGUF_TOKENIZER_H_
#define MOONRING_MODEL_GGUF_TOKENIZER_H_

// The tokenizer inside a GGUF file (tokenizer.ggml.*), as the files of a Hugging Face folder.
//
//   tokenizer.json            byte-level BPE: vocabulary, merges, added tokens, the splitting rule that tokenizer.ggml.pre names
//   tokenizer_config.json     bos, eos, pad, unk, the chat template
//   special_tokens_map.json, generation_config.json
//
// Splitting rules: smollm; gpt-2, default or none; llama-bpe; qwen2. A token of type "control" becomes a special added token, one of
// type "user defined" an added token that is not special; the rest (padding among them) is plain vocabulary.
// Cost: a few times the vocabulary's text.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "model/gguf.h"

namespace moonring::model {

// File name -> contents; empty where the file holds no tokenizer. UNIMPLEMENTED for another model (sentencepiece) or splitting rule,
// INVALID_ARGUMENT where the parts do not fit together.
absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const GgufFile& file);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_TOKENIZER_H_
