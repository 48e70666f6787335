// The tokenizer files in a model's folder: chooses the file to read, as Transformers does, and
// rewrites the files if tokens were added.
//
// Reading: the first existing one of tokenizer.json, tokenizer.model, spiece.model, qwen.tiktoken,
// tekken.json, and vocab.json with merges.txt (GPT-2's; other classes are UNIMPLEMENTED because
// they split texts differently). Also tokenizer_config.json; if that has no added_tokens_decoder,
// also special_tokens_map.json, whose names take precedence, and added_tokens.json, which older
// versions of Transformers wrote.
//
// Writing: tokenizer.json with the new tokens in added_tokens and all other bytes unchanged;
// tokenizer_config.json with added_tokens_decoder, eos_token, pad_token, additional_special_tokens
// and split_special_tokens (for Transformers; here it is an option of each run, as in
// LLaMA-Factory); special_tokens_map.json and added_tokens.json if the folder has them.
// Transformers reads the same ids from the result.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FILES_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FILES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

using TokenizerFiles =
    std::map<std::string, std::string>;  // name -> contents; may include other files of the folder

// `folder` is for messages. NOT_FOUND if there is no tokenizer; otherwise fails as Tokenizer's
// constructors do.
absl::StatusOr<std::shared_ptr<const Tokenizer>> OpenTokenizer(
    const TokenizerFiles& files, absl::string_view folder, const TokenizerOptions& options = {});

// The files that must change for `tokenizer`, which was opened from `files`, with their new
// contents. Empty if nothing was added to the tokenizer.
absl::StatusOr<TokenizerFiles> ChangedFiles(const TokenizerFiles& files,
                                            const Tokenizer& tokenizer);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FILES_H_
