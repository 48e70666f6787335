#include "data/tokenizer_json.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/status_macros.h"
#include "data/json_fields.h"

namespace moonring::data {
namespace {

using nlohmann::json;
using MergePair = std::pair<absl::string_view, absl::string_view>;

absl::Status RefuseSwitches(const json& model, absl::string_view where) {
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto found = model.find(affix); found != model.end() && !found->is_null() && *found != "") {
      return absl::UnimplementedError(absl::StrCat(where, ": ", affix, " is not supported"));
    }
  }
  if (const auto found = model.find("dropout"); found != model.end() && !found->is_null() && *found != 0.0) {
    return absl::UnimplementedError(absl::StrCat(where, ": dropout is not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MergePair> ReadMerge(const json& merge, const std::string& where) {
  if (merge.is_string()) {
    const std::vector<absl::string_view> parts = absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    if (parts.size() == 2) return MergePair(parts[0], parts[1]);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return MergePair(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
  }
  return WrongType(merge, "\"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"]", where);
}

}  // namespace

absl::Status CheckModelType(const json& model, absl::string_view where) {
  if (!model.is_object()) return WrongType(model, "an object", where);
  if (model.contains("merges") && !model.contains("type")) return absl::OkStatus();  // old files leave the type out
  ASSIGN_OR_RETURN(const std::string type, StringField(model, "type", where));
  if (type != "BPE") return absl::UnimplementedError(absl::StrCat(where, ": model type \"", type, "\" is not supported, only BPE"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const Bpe>> BpeFromJson(const json& model, BpeAlphabet alphabet, absl::string_view where) {
  RETURN_IF_ERROR(CheckModelType(model, where));
  RETURN_IF_ERROR(RefuseSwitches(model, where));
  BpeOptions options;
  options.alphabet = alphabet;
  ASSIGN_OR_RETURN(options.fuse_unknown, BoolField(model, "fuse_unk", false, where));
  ASSIGN_OR_RETURN(options.ignore_merges, BoolField(model, "ignore_merges", false, where));
  ASSIGN_OR_RETURN(options.byte_fallback, BoolField(model, "byte_fallback", false, where));
  if (const auto unknown = model.find("unk_token"); unknown != model.end() && !unknown->is_null()) {
    ASSIGN_OR_RETURN(options.unknown, StringField(model, "unk_token", where));
  }
  ASSIGN_OR_RETURN(const json* vocabulary, ObjectField(model, "vocab", where));
  options.vocabulary.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    if (!id.is_number_integer()) return WrongType(id, "an integer", absl::StrCat(where, ".vocab[\"", token, "\"]"));
    options.vocabulary.emplace_back(token, id.get<int64_t>());
  }
  ASSIGN_OR_RETURN(const json* merges, ArrayField(model, "merges", where));
  options.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const json& merge = (*merges)[i];
    if (merge.is_string() && absl::StartsWith(merge.get_ref<const std::string&>(), "#version")) continue;
    ASSIGN_OR_RETURN(const MergePair pair, ReadMerge(merge, absl::StrCat(where, ".merges[", i, "]")));
    options.merges.push_back(pair);
  }
  auto bpe = Bpe::Create(options);
  if (!bpe.ok()) return comm::WithContext(bpe.status(), where);
  return bpe;
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
