// Checks that each column named by a data set's description occurs in some row; a column that no
// row has is an error in the description. Exceptions: `tools` and `system` of the openai format,
// which rows may omit, as in LLaMA-Factory, and image, video and audio columns.
#ifndef MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
#define MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"

namespace moonring::data {

// `keys`: the keys of the rows that were read. If not all rows were read (`read_all` is false),
// optional columns may still occur later. Returns the names of the optional columns that no row
// has.
absl::StatusOr<std::vector<std::string>> CheckColumns(const DatasetDescription& description,
                                                      Stage stage,
                                                      const std::set<std::string>& keys,
                                                      bool read_all);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
