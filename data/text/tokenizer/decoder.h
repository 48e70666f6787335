// The "decoder" of a tokenizer.json: converts tokens back to text.
//
// A decoder is a chain of stages that rewrite the list of a text's tokens; the result is
// concatenated. Types:
//   ByteLevel                              joins all tokens and maps their characters to bytes
//                                          (data/text/tokenizer/byte_alphabet.h; a token with a
//                                          character outside the alphabet is used as UTF-8);
//                                          malformed UTF-8 becomes U+FFFD
//   Replace {pattern: {Regex | String}, content}, Strip {content, start, stop}       in each token;
//       Strip removes at most start / stop times the character `content` at its ends
//   ByteFallback                           a run of tokens <0x00> to <0xFF> becomes the text of
//                                          these bytes, or one U+FFFD per byte if it is not UTF-8
//   Metaspace {replacement, prepend_scheme}   the replacement becomes a space; in the first token
//                                             it is removed (unless never)
//   WordPiece {prefix, cleanup}            in all tokens but the first, the prefix is removed, or a
//                                          space is put before; cleanup removes spaces before
//                                          punctuation
//   BPEDecoder {suffix}                    the suffix becomes a space; in the last token it is
//                                          removed
//   Fuse                                   joins all tokens into one
//   Sequence {decoders}
//
// Leading stages that process each token separately can be applied once to the vocabulary (Token),
// the others to each text (Join). Cost: linear. Thread-safe. Errors: UNIMPLEMENTED with the
// position and type of unsupported stages, INVALID_ARGUMENT for wrong fields and patterns.
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
  // A list of strings, stored in one string.
  struct Pieces {
    std::string text;
    std::vector<size_t> ends;

    void Add(absl::string_view piece) {
      text.append(piece.data(), piece.size());
      ends.push_back(text.size());
    }
  };

  // `description` is the JSON value; `where` names it in messages.
  static absl::StatusOr<std::unique_ptr<const Decoder>> FromJson(const nlohmann::json& description,
                                                                 absl::string_view where);

  // The result of the leading stages for a token (well-formed UTF-8); for ByteLevel, bytes.
  std::string Token(absl::string_view token) const;

  // The text of tokens that Token has processed.
  std::string Join(Pieces tokens) const;

  // The bytes that a token, which Token has processed, adds to a text inside of it: malformed UTF-8
  // is not replaced, because the bytes may be a part of a character.
  std::string BytesInside(absl::string_view token) const;

  class Stage;
  ~Decoder();

 private:
  Decoder();
  absl::Status Append(const nlohmann::json& description, const std::string& where);

  std::vector<std::unique_ptr<const Stage>> stages_;
  double growth_ = 1.0;  // product over all stages
  size_t head_ = 0;      // number of leading stages that process each token separately
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_DECODER_H_
