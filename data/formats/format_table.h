// The formats of rows by name: what "formatting" of dataset_info.json may be. Adding one: a row of
// the table in format_table.cc, and its library in this folder's BUILD.
#ifndef MOONRING_DATA_FORMATS_FORMAT_TABLE_H_
#define MOONRING_DATA_FORMATS_FORMAT_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

std::vector<std::string> RowFormatNames();

// By the description's format, which is one of these. Fails where the format refuses the row.
absl::StatusOr<ConvertedRow> ConvertRow(const OrderedJson& row,
                                        const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_FORMAT_TABLE_H_
