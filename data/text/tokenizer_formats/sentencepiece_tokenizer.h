// Converts a sentencepiece model to the components of a tokenizer that produces the same ids as
// sentencepiece's encoder.
//
//   normalizer      the character map (longest match), merging of spaces
//                   (remove_extra_whitespaces), a space before the text (add_dummy_prefix), U+2581
//                   for spaces
//   added tokens    control and unknown pieces are special and are matched in the raw text;
//                   user-defined ones in the normalized text. The text between special tokens is
//                   encoded separately, as in Transformers
//   model           Unigram with sums in fp32, or BPE ranked by the pieces' scores
//   decoder         spaces and bytes; removes the first space if encoding adds one, and all leading
//                   spaces if encoding removes them
//
// Known difference from sentencepiece: the character map is also applied to user-defined pieces.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_TOKENIZER_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "data/text/tokenizer/added_tokens.h"
#include "data/text/tokenizer/token_model.h"
#include "data/text/tokenizer_formats/sentencepiece_model.h"

namespace moonring::data {

// "normalizer", "pre_tokenizer" and "decoder", as in a tokenizer.json. `prefix_each_part`: whether
// a space is added before each part between special tokens (Transformers' legacy), or only at the
// beginning of the text.
nlohmann::json SentencePieceStages(const SentencePieceModel& model, bool prefix_each_part);

std::vector<std::pair<int32_t, AddedToken>> SentencePieceAddedTokens(
    const SentencePieceModel& model);

absl::StatusOr<std::unique_ptr<const TokenModel>> SentencePieceTokenModel(
    const SentencePieceModel& model);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_TOKENIZER_H_
