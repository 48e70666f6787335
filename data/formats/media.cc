#include "data/formats/media.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

bool Has(const OrderedJson& value, absl::string_view tag) {
  if (value.is_string()) return absl::StrContains(value.get_ref<const std::string&>(), tag);
  if (!value.is_structured()) return false;
  for (const OrderedJson& item : value) {
    if (Has(item, tag)) return true;
  }
  return false;
}

}  // namespace

absl::Status RefuseMedia(const OrderedJson& row, const Columns& columns) {
  const struct {
    const Column& column;
    const char *one, *tag;
  } kinds[] = {{columns.images, "an image", "<image>"},
               {columns.videos, "a video", "<video>"},
               {columns.audios, "sound", "<audio>"}};
  if (!row.is_object()) return absl::OkStatus();  // reported by the row's format
  for (const auto& [column, one, tag] : kinds) {
    if (!column.has_value()) continue;
    const OrderedJson* media = FindField(row, column);
    if (media != nullptr && PythonTruth(*media))
      return absl::UnimplementedError(
          absl::StrCat("'", *column, "' has ", one, "; models read text alone here"));
    if (Has(row, tag))
      return absl::InvalidArgumentError(
          absl::StrCat("a text has ", tag, ", and '", *column, "' has none"));
  }
  return absl::OkStatus();
}

}  // namespace moonring::data
