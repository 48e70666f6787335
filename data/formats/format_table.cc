#include "data/formats/format_table.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status/status_macros.h"
#include "data/formats/alpaca.h"
#include "data/formats/media.h"
#include "data/formats/message_fields.h"
#include "data/formats/openai.h"
#include "data/formats/sharegpt.h"

namespace moonring::data {
namespace {

struct RowFormat {
  absl::string_view name;
  absl::StatusOr<ConvertedRow> (*convert)(const OrderedJson& row,
                                          const DatasetDescription& description, Stage stage);
};

constexpr RowFormat kFormats[] = {
    {"alpaca", &ConvertAlpaca},
    {"sharegpt", &ConvertSharegpt},
    {"openai", &ConvertOpenai},
};

// The names of all columns in the description, including those that this stage does not read.
std::vector<std::string> NamedColumns(const DatasetDescription& description) {
  const Columns& c = description.columns;
  std::vector<std::string> names;
  for (const Column* column :
       {&c.prompt, &c.query, &c.response, &c.messages, &c.history, &c.system, &c.tools, &c.images,
        &c.videos, &c.audios, &c.chosen, &c.rejected, &c.kto_tag}) {
    if (column->has_value()) names.push_back(**column);
  }
  return names;
}

}  // namespace

std::vector<std::string> RowFormatNames() {
  std::vector<std::string> names;
  for (const RowFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

absl::StatusOr<ConvertedRow> ConvertRow(const OrderedJson& row,
                                        const DatasetDescription& description, Stage stage) {
  RETURN_IF_ERROR(RefuseMedia(row, description.columns));
  for (const RowFormat& format : kFormats) {
    if (format.name != description.formatting) continue;
    ASSIGN_OR_RETURN(ConvertedRow converted, format.convert(row, description, stage));
    NoteColumns(row, NamedColumns(description), converted.noted);
    return converted;
  }
  return absl::InternalError(absl::StrCat("no format '", description.formatting, "'"));
}

}  // namespace moonring::data
