// The files of a model's folder that say what its tokenizer is: which of them is read, as
// Transformers chooses, and what becomes of them where tokens were added.
//
// Read: the first that there is of tokenizer.json, tokenizer.model, spiece.model, qwen.tiktoken,
// tekken.json, and vocab.json with merges.txt (GPT-2's; another class is UNIMPLEMENTED, it cuts
// texts otherwise). Beside it tokenizer_config.json; where that has no added_tokens_decoder also
// special_tokens_map.json, whose names win, and added_tokens.json, as older versions of
// Transformers wrote them.
//
// Written: tokenizer.json with the new tokens in its added_tokens and not a byte else changed;
// tokenizer_config.json with added_tokens_decoder, eos_token, pad_token, additional_special_tokens
// and split_special_tokens (for Transformers: here it is asked for anew, as in LLaMA-Factory);
// special_tokens_map.json and added_tokens.json where the folder has them. Transformers reads the
// same ids out of them.
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
    std::map<std::string, std::string>;  // name -> contents; others of the folder may be among them

// `folder` is for messages. NOT_FOUND where there is no tokenizer; else fails as Tokenizer's
// constructors do.
absl::StatusOr<std::shared_ptr<const Tokenizer>> OpenTokenizer(
    const TokenizerFiles& files, absl::string_view folder, const TokenizerOptions& options = {});

// The files that `tokenizer`, which was opened from `files`, wants otherwise. None where nothing
// was added to it.
absl::StatusOr<TokenizerFiles> ChangedFiles(const TokenizerFiles& files,
                                            const Tokenizer& tokenizer);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FILES_H_
