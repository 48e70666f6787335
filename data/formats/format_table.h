// The table of row formats by name, the allowed values of "formatting" in dataset_info.json. To add
// a format, add a row to the table in format_table.cc and a library to this folder's BUILD.
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

// Converts a row with the description's format, which must be in the table. Fails if the format
// rejects the row.
absl::StatusOr<ConvertedRow> ConvertRow(const OrderedJson& row,
                                        const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_FORMAT_TABLE_H_
