// Mistral's tokenizer files tekken.json: byte-level BPE by ranks, as in tiktoken, with a pattern
// and special tokens.
//
// The first config.default_num_special_tokens ids are special tokens: those listed in
// "special_tokens" (from version 7 on), otherwise the twenty known ones, and <SPECIAL_n> for the
// rest. The remaining config.default_vocab_size ids are the first entries of "vocab", in rank
// order. Other sections of the file (images, audio) are ignored. Source: the documentation of
// mistral-common.
//
// Fails with INVALID_ARGUMENT (naming `where`, and the token) for malformed JSON, missing fields,
// invalid base64, or ranks out of order.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TEKKEN_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TEKKEN_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/tokenizer_formats/tiktoken_ranks.h"
#include "data/text/tokenizer_formats/tiktoken_rules.h"

namespace moonring::data {

struct Tekken {
  TiktokenRanks ranks;
  TiktokenRule rule;
};

absl::StatusOr<Tekken> ParseTekken(absl::string_view text, absl::string_view where);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_TEKKEN_H_
