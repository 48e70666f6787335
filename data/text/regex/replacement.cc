#include "data/text/regex/replacement.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/regex/pattern_field.h"

namespace moonring::data {

absl::StatusOr<Replacement> Replacement::FromJson(const nlohmann::json& description,
                                                  absl::string_view where) {
  Replacement made;
  ASSIGN_OR_RETURN(made.pattern, PatternField(description, "pattern", where));
  ASSIGN_OR_RETURN(made.content, StringField(description, "content", where));
  const nlohmann::json& pattern = description["pattern"];
  const auto size = static_cast<double>(made.content.size());
  // A regular expression may have an empty match between any two characters, so the content may be
  // inserted at each of them.
  made.growth = pattern.contains("String")
                    ? size / static_cast<double>(std::max<size_t>(
                                 1, pattern["String"].get_ref<const std::string&>().size()))
                    : size + 1.0;
  made.growth = std::max(1.0, made.growth);
  return made;
}

std::string Replacement::Apply(absl::string_view text, size_t most) const {
  std::string out;
  pattern->Split(text, [&](absl::string_view part, bool match) {
    const absl::string_view piece = match ? absl::string_view(content) : part;
    CheckRewritten(out.size() + piece.size(), most);
    absl::StrAppend(&out, piece);
  });
  return out;
}

void CheckRewritten(size_t made, size_t most) {
  if (made > most)
    throw std::runtime_error(absl::StrCat("rewriting a text makes more than ", most, " bytes"));
}

absl::Status CheckGrowth(double growth, absl::string_view where) {
  constexpr double kMost = 1e6;
  if (growth <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": with this Replace the chain could make a text ", growth,
                   " times longer; expected at most ", kMost));
}

}  // namespace moonring::data
