#include "data/text/tokenizer_formats/tokenizer_json.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/tokenizer/bpe.h"
#include "data/text/tokenizer/unigram.h"
#include "data/text/tokenizer/word_piece.h"

namespace moonring::data {
namespace {

using nlohmann::json;
using MergePair = std::pair<absl::string_view, absl::string_view>;

absl::Status RefuseSwitches(const json& model, absl::string_view where) {
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto found = model.find(affix);
        found != model.end() && !found->is_null() && *found != "") {
      return absl::UnimplementedError(absl::StrCat(where, ": ", affix, " is not supported"));
    }
  }
  if (const auto found = model.find("dropout");
      found != model.end() && !found->is_null() && *found != 0.0) {
    return absl::UnimplementedError(absl::StrCat(where, ": dropout is not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MergePair> ReadMerge(const json& merge, const std::string& where) {
  if (merge.is_string()) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    if (parts.size() == 2) return MergePair(parts[0], parts[1]);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    return MergePair(merge[0].get_ref<const std::string&>(),
                     merge[1].get_ref<const std::string&>());
  }
  return WrongType(merge, "\"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"]", where);
}

using Made = absl::StatusOr<std::unique_ptr<const TokenModel>>;

template <typename Model>
Made WithPlace(absl::StatusOr<std::unique_ptr<const Model>> made, absl::string_view where) {
  if (!made.ok()) return base::WithContext(made.status(), where);
  return std::unique_ptr<const TokenModel>(*std::move(made));
}

// "vocab": {token: id}. The views point into the document.
absl::StatusOr<std::vector<std::pair<absl::string_view, int64_t>>> VocabularyField(
    const json& model, absl::string_view where) {
  ASSIGN_OR_RETURN(const json* object, ObjectField(model, "vocab", where));
  std::vector<std::pair<absl::string_view, int64_t>> vocabulary;
  vocabulary.reserve(object->size());
  for (auto entry = object->begin(); entry != object->end(); ++entry) {
    if (!entry->is_number_integer())
      return WrongType(*entry, "an integer", absl::StrCat(where, ".vocab[\"", entry.key(), "\"]"));
    vocabulary.emplace_back(entry.key(), entry->get<int64_t>());
  }
  return vocabulary;
}

Made BpeFromJson(const json& model, bool byte_level, absl::string_view where) {
  RETURN_IF_ERROR(RefuseSwitches(model, where));
  BpeOptions options;
  options.alphabet = byte_level ? BpeAlphabet::kBytes : BpeAlphabet::kCharacters;
  ASSIGN_OR_RETURN(options.fuse_unknown, BoolField(model, "fuse_unk", false, where));
  ASSIGN_OR_RETURN(options.ignore_merges, BoolField(model, "ignore_merges", false, where));
  ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "byte_fallback", false, where));
  if (const auto unknown = model.find("unk_token"); unknown != model.end() && !unknown->is_null()) {
    ASSIGN_OR_RETURN(options.unknown, StringField(model, "unk_token", where));
  }
  ASSIGN_OR_RETURN(options.vocabulary, VocabularyField(model, where));
  ASSIGN_OR_RETURN(const json* merges, ArrayField(model, "merges", where));
  options.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const json& merge = (*merges)[i];
    if (merge.is_string() && absl::StartsWith(merge.get_ref<const std::string&>(), "#version"))
      continue;
    ASSIGN_OR_RETURN(const MergePair pair,
                     ReadMerge(merge, absl::StrCat(where, ".merges[", i, "]")));
    options.merges.push_back(pair);
  }
  return WithPlace(Bpe::Create(options), where);
}

// Parses a number like the tokenizers library: its digits as an integer, divided by a power of ten,
// both as doubles. The result can differ from the correctly rounded double by one ulp. Scores must
// be read this way, because they decide which of two segmentations with the same pieces has the
// larger sum.
double AsTheLibraryReads(double value) {
  constexpr int kLargestExactPower = 22;
  char text[32];
  const char* const end =
      std::to_chars(text, text + sizeof(text), std::abs(value), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (const char* at = text; at < end; ++at) {
    if (*at == 'e') {
      int shift = 0;
      std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, shift);
      exponent += shift;
      break;
    }
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= fraction ? 1 : 0;
  }
  if (exponent > 0 || exponent < -kLargestExactPower) return value;
  double power = 1;
  for (int i = 0; i < -exponent; ++i) power *= 10;
  return std::copysign(static_cast<double>(digits) / power, value);
}

Made UnigramFromJson(const json& model, absl::string_view where) {
  UnigramOptions options;
  ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "byte_fallback", false, where));
  if (const auto unknown = model.find("unk_id"); unknown != model.end() && !unknown->is_null()) {
    ASSIGN_OR_RETURN(options.unknown, IntegerField(model, "unk_id", where));
  }
  ASSIGN_OR_RETURN(const json* vocabulary, ArrayField(model, "vocab", where));
  options.pieces.reserve(vocabulary->size());
  for (size_t i = 0; i < vocabulary->size(); ++i) {
    const json& piece = (*vocabulary)[i];
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      return WrongType(piece, "[TOKEN, SCORE]", absl::StrCat(where, ".vocab[", i, "]"));
    }
    options.pieces.push_back(
        {piece[0].get_ref<const std::string&>(), AsTheLibraryReads(piece[1].get<double>())});
  }
  return WithPlace(Unigram::Create(options), where);
}

Made WordPieceFromJson(const json& model, absl::string_view where) {
  WordPieceOptions options;
  ASSIGN_OR_RETURN(options.unknown, StringField(model, "unk_token", where));
  ASSIGN_OR_RETURN(options.continuing_prefix,
                   StringField(model, "continuing_subword_prefix", where));
  ASSIGN_OR_RETURN(options.longest_word, IntegerField(model, "max_input_chars_per_word", where));
  ASSIGN_OR_RETURN(options.vocabulary, VocabularyField(model, where));
  return WithPlace(WordPiece::Create(options), where);
}

}  // namespace

absl::StatusOr<std::string> ModelTypeOf(const json& model, absl::string_view where) {
  if (!model.is_object()) return WrongType(model, "an object", where);
  if (!model.contains("type")) {
    if (model.contains("merges")) return "BPE";
    if (model.contains("vocab") && model["vocab"].is_array()) return "Unigram";
    if (model.contains("max_input_chars_per_word")) return "WordPiece";
  }
  ASSIGN_OR_RETURN(std::string type, StringField(model, "type", where));
  if (type == "BPE" || type == "Unigram" || type == "WordPiece") return type;
  return absl::UnimplementedError(absl::StrCat(
      where, ": model type \"", type, "\" is not supported, only BPE, Unigram and WordPiece"));
}

Made ModelFromJson(const json& model, bool byte_level, absl::string_view where) {
  ASSIGN_OR_RETURN(const std::string type, ModelTypeOf(model, where));
  if (type == "BPE") return BpeFromJson(model, byte_level, where);
  if (type == "Unigram") return UnigramFromJson(model, where);
  return WordPieceFromJson(model, where);
}

absl::StatusOr<AddedToken> AddedTokenFromJson(const json& value, absl::string_view where) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.special = true;
    token.normalized = false;
    return token;
  }
  ASSIGN_OR_RETURN(token.content, StringField(value, "content", where));
  ASSIGN_OR_RETURN(token.special, BoolField(value, "special", false, where));
  ASSIGN_OR_RETURN(token.single_word, BoolField(value, "single_word", false, where));
  ASSIGN_OR_RETURN(token.lstrip, BoolField(value, "lstrip", false, where));
  ASSIGN_OR_RETURN(token.rstrip, BoolField(value, "rstrip", false, where));
  ASSIGN_OR_RETURN(token.normalized, BoolField(value, "normalized", !token.special, where));
  return token;
}

json MergesFromText(absl::string_view merges_txt) {
  json merges = json::array();
  for (absl::string_view line : absl::StrSplit(merges_txt, '\n')) {
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (!line.empty()) merges.push_back(std::string(line));
  }
  return merges;
}

}  // namespace moonring::data
