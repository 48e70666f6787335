// Tokens back to text: the "decoder" of a tokenizer.json.
//
// A decoder is a chain of stages that rewrite the list of a text's tokens; what is left is joined.
// Types:
//   ByteLevel                              one token: the bytes that all of them stand for
//                                          (data/text/tokenizer/byte_alphabet.h; a token with a
//                                          character outside the alphabet stands for its own
//                                          UTF-8), U+FFFD for what is malformed
//   Replace {pattern: {Regex | String}, content}, Strip {content, start, stop}       in each token;
//       Strip at most that many of the character content
//   ByteFallback                           a run of tokens <0x00> to <0xFF> becomes the text of
//                                          these bytes, or U+FFFD a byte where they are not UTF-8
//   Metaspace {replacement, prepend_scheme}   the replacement becomes a space, or nothing in the
//                                             first token (unless never)
//   WordPiece {prefix, cleanup}            a token but the first loses the prefix, or gets a space
//                                          before it; cleanup joins punctuation to what it follows
//   BPEDecoder {suffix}                    the suffix becomes a space, in the last token nothing
//   Fuse                                   one token of all
//   Sequence {decoders}
//
// The stages at the head of a chain that see each token by itself can be run on the vocabulary once
// (Token), the rest on each text (Join). Cost: linear. Thread-safe. Fails: UNIMPLEMENTED naming the
// place and type of what is not known, INVALID_ARGUMENT on wrong fields and patterns.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_DECODER_H_
#define MOONRING_DATA_TEXT_TOKENIZER_DECODER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class Decoder {
 public:
  // A list of strings, end to end.
  struct Pieces {
    std::string text;
    std::vector<size_t> ends;

    void Add(absl::string_view piece) {
      text.append(piece.data(), piece.size());
      ends.push_back(text.size());
    }
  };

  // `description` is the JSON value, `where` names it in messages.
  static absl::StatusOr<std::unique_ptr<const Decoder>> FromJson(const nlohmann::json& description,
                                                                 absl::string_view where);

  // What the stages at the head make of a token (well-formed UTF-8); bytes, for ByteLevel.
  std::string Token(absl::string_view token) const;

  // The text of tokens that went through Token one by one.
  std::string Join(Pieces tokens) const;

  class Stage;
  ~Decoder();

 private:
  Decoder();
  absl::Status Append(const nlohmann::json& description, const std::string& where);

  std::vector<std::unique_ptr<const Stage>> stages_;
  double growth_ = 1.0;  // of all stages
  size_t head_ = 0;      // stages before this one see each token by itself
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_DECODER_H_
