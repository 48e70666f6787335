#include "data/formats/row_fields.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace moonring::data {

const OrderedJson* FindField(const OrderedJson& row, const Column& column) {
  if (!column.has_value()) return nullptr;
  const auto found = row.find(*column);
  return found == row.end() || found->is_null() || IsNan(*found) ? nullptr : &*found;
}

absl::StatusOr<std::optional<std::string>> TextField(const OrderedJson& row, const Column& column) {
  const OrderedJson* value = FindField(row, column);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string())
    return absl::InvalidArgumentError(
        absl::StrCat("'", *column, "' must be a string, got ", value->type_name()));
  return std::optional(value->get<std::string>());
}

absl::Status ReadTag(const OrderedJson& row, const Column& column, ConvertedRow& converted) {
  const OrderedJson* value = FindField(row, column);
  if (value == nullptr) {
    converted.skipped = absl::StrCat("no '", *column, "'");
    return absl::OkStatus();
  }
  // CSV cells are strings: these six are read as booleans, as by pandas.
  for (const char* text : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (*value != text) continue;
    converted.desirable = absl::ascii_tolower(text[0]) == 't';
    return absl::OkStatus();
  }
  if (!value->is_boolean())
    return absl::InvalidArgumentError(
        absl::StrCat("'", *column, "' must be true or false, got ", value->type_name()));
  converted.desirable = value->get<bool>();
  return absl::OkStatus();
}

}  // namespace moonring::data
