// Images, videos and sound of a row. Models read text alone here, so a row that has one is refused;
// one whose columns for them are empty is a text like any other.
#ifndef MOONRING_DATA_FORMATS_MEDIA_H_
#define MOONRING_DATA_FORMATS_MEDIA_H_

#include "absl/status/status.h"
#include "data/description/dataset_info.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// UNIMPLEMENTED where one of the description's columns for them holds something; where none does
// and the row's texts have a place for one (<image>, <video>, <audio>), INVALID_ARGUMENT, as
// LLaMA-Factory, which counts both. Without such a column those are words. The caller adds file and
// row.
absl::Status RefuseMedia(const OrderedJson& row, const Columns& columns);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MEDIA_H_
