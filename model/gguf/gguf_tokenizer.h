#ifndef MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_
#define MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_

// Converts the tokenizer in a GGUF file (tokenizer.ggml.*) to the files of a Hugging Face folder.
//
//   tokenizer.json            BPE: vocabulary, merges, added tokens, and the stages around them
//   tokenizer_config.json     bos, eos, pad, unk, the chat template
//   special_tokens_map.json, generation_config.json
//
// tokenizer.ggml.model:
//   gpt2    byte-level BPE, split by the rule that tokenizer.ggml.pre names
//           (model/gguf/gguf_splitting_rules.h)
//   llama   sentencepiece's BPE over characters with byte fallback: merges are derived from the
//           pieces' scores (model/gguf/sentencepiece_merges.h), stages as Transformers' converters
//           write them: with add_space_prefix (the default) as in Llama, a space before each
//           section of the text between special tokens, which decoding removes again; without it as
//           in Gemma
//
// A token of type "control" or "unknown" becomes a special added token, one of type "user defined"
// an added token that is not special. With llama, the spaces of a "user defined" token are
// converted to U+2581 and its merges come first, because sentencepiece matches such tokens first;
// GGUF stores neither the U+2581 nor that order. All other tokens (including padding) are ordinary
// vocabulary. Memory and time are a small multiple of the vocabulary's text.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "model/gguf/gguf.h"

namespace moonring::model {

// Returns a map from file name to contents; it is empty if the GGUF file has no tokenizer.
// UNIMPLEMENTED for another kind of tokenizer (Unigram, WordPiece) or an unknown splitting rule;
// INVALID_ARGUMENT if the tokenizer's data are inconsistent.
absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const GgufFile& file);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_
