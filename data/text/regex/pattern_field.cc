#include "data/text/regex/pattern_field.h"

#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"

namespace moonring::data {

absl::StatusOr<std::shared_ptr<const Regex>> PatternField(const nlohmann::json& object,
                                                          const char* key,
                                                          absl::string_view where) {
  ASSIGN_OR_RETURN(const nlohmann::json* pattern, ObjectField(object, key, where));
  const std::string place = absl::StrCat(where, ".", key);
  const bool literal = pattern->contains("String");
  ASSIGN_OR_RETURN(const std::string text,
                   StringField(*pattern, literal ? "String" : "Regex", place));
  auto regex = literal ? Regex::Literal(text) : Regex::Compile(text);
  if (!regex.ok()) return base::WithContext(regex.status(), place);
  return regex;
}

}  // namespace moonring::data
