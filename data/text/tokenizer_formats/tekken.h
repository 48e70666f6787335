// Mistral's tokenizer files tekken.json: byte-level BPE by ranks, as tiktoken's, with its pattern
// and its special tokens.
//
// The first config.default_num_special_tokens ids are special tokens: those that "special_tokens"
// lists (from version 7 on), else the known twenty, and <SPECIAL_n> for the rest. Of "vocab" the
// first config.default_vocab_size less these are taken; a token's id is its rank behind the special
// ones. Other parts of the file (images, sound) are passed over. Source: mistral-common's
// documentation of the format.
//
// Fails with INVALID_ARGUMENT (naming `where`, and the token) on malformed JSON, missing fields,
// bytes that are no base64, ranks out of order.
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
