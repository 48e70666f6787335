#ifndef MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_
#define MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_

// The tokenizer inside a GGUF file (tokenizer.ggml.*), as the files of a Hugging Face folder.
//
//   tokenizer.json            BPE: vocabulary, merges, added tokens, and the stages around them
//   tokenizer_config.json     bos, eos, pad, unk, the chat template
//   special_tokens_map.json, generation_config.json
//
// tokenizer.ggml.model:
//   gpt2    byte-level BPE, cut by the rule that tokenizer.ggml.pre names
//           (model/gguf/gguf_splitting_rules.h)
//   llama   sentencepiece's BPE over characters with byte fallback: merges from the pieces' scores
//           (model/gguf/sentencepiece_merges.h), stages as Transformers' converters write them:
//           with add_space_prefix (the default) Llama's, a space before each part of the text
//           between special tokens that decoding takes away again; without it Gemma's
//
// A token of type "control" or "unknown" becomes a special added token, one of type "user defined"
// an added token that is not special (in llama its spaces are written U+2581 again and its merges
// go first, as its matches do in sentencepiece; GGUF keeps neither); the rest (padding among them)
// is plain vocabulary.
// Cost: a few times the vocabulary's text.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "model/gguf/gguf.h"

namespace moonring::model {

// File name -> contents; empty where the file holds no tokenizer. UNIMPLEMENTED for another model
// (Unigram, WordPiece) or splitting rule, INVALID_ARGUMENT where the parts do not fit together.
absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const GgufFile& file);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_TOKENIZER_H_
