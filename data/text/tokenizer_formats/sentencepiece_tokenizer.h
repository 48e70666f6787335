// A sentencepiece model as the parts of a tokenizer, so that texts get the ids that sentencepiece's
// own encoder gives them.
//
//   normalizer      the map of characters (longest match), runs of spaces
//                   (remove_extra_whitespaces), a space before the text (add_dummy_prefix), U+2581
//                   for spaces
//   added tokens    control and unknown pieces, special, looked for in the text itself;
//                   user-defined ones in the normalised text. What lies between special tokens is a
//                   text of its own to sentencepiece, as in Transformers
//   model           Unigram with sums in fp32, or BPE ranked by the pieces' scores
//   decoder         spaces, bytes; without the first space where encoding puts one, without all
//                   leading ones where it removes them
//
// Known differences from sentencepiece: the map of characters sees user-defined pieces too.
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
// the space stands before each part between special tokens (what Transformers calls legacy), or
// before the text's own beginning only.
nlohmann::json SentencePieceStages(const SentencePieceModel& model, bool prefix_each_part);

std::vector<std::pair<int32_t, AddedToken>> SentencePieceAddedTokens(
    const SentencePieceModel& model);

absl::StatusOr<std::unique_ptr<const TokenModel>> SentencePieceTokenModel(
    const SentencePieceModel& model);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_TOKENIZER_H_
