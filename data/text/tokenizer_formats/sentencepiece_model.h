// A sentencepiece model file (tokenizer.model, spiece.model): a protobuf ModelProto, of which the
// fields below are read and all others passed over.
//
// The wire format is read here, not by a protobuf library: the fields are few, and a library would
// bring 3 MB and a code generator into the host for them.
//
// Parse fails with INVALID_ARGUMENT (naming `where`) on what is no such message, a text that is not
// UTF-8, a score that is not finite, no unknown piece or two; UNIMPLEMENTED for the word and
// character models, unused pieces, and spaces at the ends of words (treat_whitespace_as_suffix).
// Cost: linear; what a length announces is compared with what there is before anything is
// allocated.
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
  int32_t unknown = 0;        // the id of the piece of that type
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  int64_t bos = 1, eos = 2, pad = -1;  // negative where there is none

  // How texts are normalised.
  std::string characters_map;  // data/text/tokenizer/characters_map.h; may be empty
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_FORMATS_SENTENCEPIECE_MODEL_H_
