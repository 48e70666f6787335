#include "data/text/tokenizer/metaspace_fields.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"

namespace moonring::data {
namespace {

using Prepend = MetaspaceFields::Prepend;

absl::StatusOr<Prepend> PrependField(const nlohmann::json& object, absl::string_view where) {
  if (!object.contains("prepend_scheme")) return Prepend::kAlways;
  ASSIGN_OR_RETURN(const std::string name, StringField(object, "prepend_scheme", where));
  constexpr std::pair<absl::string_view, Prepend> kNames[] = {
      {"first", Prepend::kFirst}, {"always", Prepend::kAlways}, {"never", Prepend::kNever}};
  for (const auto& [known, prepend] : kNames) {
    if (name == known) return prepend;
  }
  return absl::UnimplementedError(
      absl::StrCat(where, ": prepend_scheme \"", name, "\" is not supported"));
}

}  // namespace

absl::StatusOr<MetaspaceFields> MetaspaceFieldsFromJson(const nlohmann::json& object,
                                                        absl::string_view where) {
  MetaspaceFields fields;
  ASSIGN_OR_RETURN(fields.replacement, CharacterField(object, "replacement", where));
  ASSIGN_OR_RETURN(fields.prepend, PrependField(object, where));
  ASSIGN_OR_RETURN(fields.split, BoolField(object, "split", true, where));
  ASSIGN_OR_RETURN(const bool add_prefix_space, BoolField(object, "add_prefix_space", true, where));
  if (!add_prefix_space && fields.prepend != Prepend::kNever) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": add_prefix_space false goes with prepend_scheme \"never\" only"));
  }
  return fields;
}

}  // namespace moonring::data
