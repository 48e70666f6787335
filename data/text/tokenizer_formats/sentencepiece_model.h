// A sentencepiece model file (tokenizer.model, spiece.model): a protobuf ModelProto. Only the
// fields below are read.
//
// The wire format is parsed here and not by a protobuf library, which would add 3 MB and a code
// generator for a few fields.
//
// Parse fails with INVALID_ARGUMENT (naming `where`) for a malformed message, a text that is not
// UTF-8, a non-finite score, no unknown piece or two; with UNIMPLEMENTED for word and character
// models, unused pieces, and treat_whitespace_as_suffix. Cost: linear; lengths in the file are
// checked against the remaining bytes before anything is allocated.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_MODEL_H_
#define MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

struct SentencePieceModel {
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  enum class Kind { kUnigram = 1, kBpe = 2 };

  static absl::StatusOr<SentencePieceModel> Parse(absl::string_view bytes, absl::string_view where);

  std::vector<Piece> pieces;  // by id
  int32_t unknown = 0;        // id of the unknown piece
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  int64_t bos = 1, eos = 2, pad = -1;  // negative if there is none

  // Settings of normalization.
  std::string characters_map;  // data/text/tokenizer/characters_map.h; may be empty
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_MODEL_H_
