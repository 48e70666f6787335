// Reads single fields of a row by their column. A missing key is read as null, as in a table in
// which other rows have this column. NaN is read as null too, because pandas writes it for missing
// values. Values of a wrong type are errors that name the key; the caller adds file and row.
#ifndef MOONRING_DATA_FORMATS_ROW_FIELDS_H_
#define MOONRING_DATA_FORMATS_ROW_FIELDS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// The value; nullptr if there is no such column or the value is null.
const OrderedJson* FindField(const OrderedJson& row, const Column& column);

absl::StatusOr<std::optional<std::string>> TextField(const OrderedJson& row, const Column& column);

// Reads the KTO tag into `converted`. If it is null, the row is marked as skipped.
absl::Status ReadTag(const OrderedJson& row, const Column& column, ConvertedRow& converted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_ROW_FIELDS_H_
