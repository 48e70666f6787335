// Rejects rows with images, videos or audio, because only text models are supported. Rows whose
// media columns are empty are accepted.
#ifndef MOONRING_DATA_FORMATS_MEDIA_H_
#define MOONRING_DATA_FORMATS_MEDIA_H_

#include "absl/status/status.h"
#include "data/description/dataset_info.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// UNIMPLEMENTED if one of the description's media columns is not empty. INVALID_ARGUMENT if such a
// column is empty but a text of the row has its placeholder (<image>, <video>, <audio>):
// LLaMA-Factory compares their numbers too. Without the column, a placeholder is ordinary text. The
// caller adds file and row.
absl::Status RefuseMedia(const OrderedJson& row, const Columns& columns);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MEDIA_H_
