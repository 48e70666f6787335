#include "data/formats/format_table.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "comm/status/status_macros.h"
#include "data/formats/alpaca.h"
#include "data/formats/media.h"
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
    if (format.name == description.formatting) return format.convert(row, description, stage);
  }
  return absl::InternalError(absl::StrCat("no format '", description.formatting, "'"));
}

}  // namespace moonring::data
