#include "data/text/tokenizer_formats/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

using Type = SentencePieceModel::Type;

// One field of a protobuf message: its number, wire type and value.
struct Field {
  uint64_t number = 0;
  enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } wire = Wire::kVarint;
  uint64_t integer = 0;     // for all types but kBytes
  absl::string_view bytes;  // for kBytes

  bool boolean() const { return integer != 0; }
  int64_t signed_integer() const { return static_cast<int64_t>(integer); }
};

class MessageReader {
 public:
  explicit MessageReader(absl::string_view bytes) : bytes_(bytes) {}

  // The next field; nullopt at the end, or if the message is malformed (malformed() is then true).
  std::optional<Field> Next() {
    if (bytes_.empty() || malformed_) return std::nullopt;
    Field field;
    const uint64_t tag = Varint();
    field.number = tag >> 3;
    field.wire = static_cast<Field::Wire>(tag & 7);
    switch (field.wire) {
      case Field::Wire::kVarint:
        field.integer = Varint();
        break;
      case Field::Wire::kFixed64:
        field.integer = Fixed(8);
        break;
      case Field::Wire::kFixed32:
        field.integer = Fixed(4);
        break;
      case Field::Wire::kBytes:
        field.bytes = Take(Varint());
        break;
      default:
        malformed_ = true;
    }
    if (field.number == 0) malformed_ = true;
    if (malformed_) return std::nullopt;
    return field;
  }

  bool malformed() const { return malformed_; }

 private:
  absl::string_view Take(uint64_t size) {
    if (size > bytes_.size()) {
      malformed_ = true;
      return {};
    }
    const absl::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const absl::string_view byte = Take(1);
      if (byte.empty()) return 0;
      value |= static_cast<uint64_t>(byte[0] & 0x7F) << shift;
      if ((byte[0] & 0x80) == 0) return value;
    }
    malformed_ = true;
    return 0;
  }

  uint64_t Fixed(size_t size) {
    uint64_t value = 0;
    const absl::string_view bytes = Take(size);
    for (size_t i = 0; i < bytes.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return value;
  }

  absl::string_view bytes_;
  bool malformed_ = false;
};

// Calls on_field(field) for each field of the message. Returns false if it is malformed.
template <typename OnField>
bool ForEachField(absl::string_view message, OnField on_field) {
  MessageReader reader(message);
  while (const auto field = reader.Next()) on_field(*field);
  return !reader.malformed();
}

bool ReadPiece(absl::string_view message, SentencePieceModel::Piece& piece) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.integer));
    if (field.number == 3) piece.type = static_cast<Type>(field.integer);
  });
}

// The training settings that affect encoding.
struct TrainerSpec {
  uint64_t model_type = 1;
  bool space_as_suffix = false;
};

bool ReadTrainerSpec(absl::string_view message, TrainerSpec& spec, SentencePieceModel& model) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 3) spec.model_type = field.integer;
    if (field.number == 24) spec.space_as_suffix = field.boolean();
    if (field.number == 35) model.byte_fallback = field.boolean();
    if (field.number == 41) model.bos = field.signed_integer();
    if (field.number == 42) model.eos = field.signed_integer();
    if (field.number == 43) model.pad = field.signed_integer();
  });
}

bool ReadNormalizerSpec(absl::string_view message, SentencePieceModel& model) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 2) model.characters_map = std::string(field.bytes);
    if (field.number == 3) model.add_dummy_prefix = field.boolean();
    if (field.number == 4) model.remove_extra_whitespaces = field.boolean();
    if (field.number == 5) model.escape_whitespaces = field.boolean();
  });
}

absl::Status CheckPieces(SentencePieceModel& model, absl::string_view where) {
  int unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": piece ", id, what));
    };
    if (ValidUtf8Prefix(piece.text) < piece.text.size()) return wrong(" is not UTF-8");
    if (piece.text.empty()) return wrong(" is empty");
    if (!std::isfinite(piece.score)) return wrong(" has a score that is not finite");
    if (piece.type < Type::kNormal || piece.type > Type::kByte)
      return wrong(absl::StrCat(" has type ", static_cast<int>(piece.type), ", expected 1 to 6"));
    if (piece.type == Type::kUnused)
      return absl::UnimplementedError(
          absl::StrCat(where, ": piece ", id, " is unused, which is not supported"));
    if (piece.type != Type::kUnknown) continue;
    model.unknown = static_cast<int32_t>(id);
    ++unknown;
  }
  if (unknown == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", unknown, " of the ",
                                                 model.pieces.size(),
                                                 " pieces are the unknown one, expected 1"));
}

}  // namespace

absl::StatusOr<SentencePieceModel> SentencePieceModel::Parse(absl::string_view bytes,
                                                             absl::string_view where) {
  SentencePieceModel model;
  TrainerSpec trainer;
  bool well_formed = true;
  well_formed &= ForEachField(bytes, [&](const Field& field) {
    if (field.wire != Field::Wire::kBytes) return;
    if (field.number == 1) well_formed &= ReadPiece(field.bytes, model.pieces.emplace_back());
    if (field.number == 2) well_formed &= ReadTrainerSpec(field.bytes, trainer, model);
    if (field.number == 3) well_formed &= ReadNormalizerSpec(field.bytes, model);
  });
  if (!well_formed)
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": not a sentencepiece model (a protobuf message is malformed)"));
  RETURN_IF_ERROR(CheckPieces(model, where));
  if (trainer.model_type != 1 && trainer.model_type != 2) {
    return absl::UnimplementedError(
        absl::StrCat(where, ": model type ", trainer.model_type,
                     " is not supported, only 1 (Unigram) and 2 (BPE)"));
  }
  model.kind = static_cast<Kind>(trainer.model_type);
  if (trainer.space_as_suffix)
    return absl::UnimplementedError(
        absl::StrCat(where, ": treat_whitespace_as_suffix is not supported"));
  return model;
}

}  // namespace moonring::data
