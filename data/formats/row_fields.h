// Single fields of a row, by the column that names them. An absent key is null, as in a table whose
// other rows have it; so is NaN, which pandas writes for what is missing. Fails where a value has a
// wrong type, naming the key; the caller adds file and row.
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

// The value, or nothing where there is no such column or it is null.
const OrderedJson* FindField(const OrderedJson& row, const Column& column);

absl::StatusOr<std::optional<std::string>> TextField(const OrderedJson& row, const Column& column);

// KTO's mark into `converted`, whose `skipped` says so where it is null.
absl::Status ReadTag(const OrderedJson& row, const Column& column, ConvertedRow& converted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_ROW_FIELDS_H_
