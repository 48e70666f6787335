// A column that no row has is a slip in a data set's description.
#ifndef MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
#define MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"

namespace moonring::data {

// `keys`: of the rows that were read. Where they are not all (`read_all` is false) the others may
// have an optional column.
absl::Status CheckColumns(const DatasetDescription& description, Stage stage,
                          const std::set<std::string>& keys, bool read_all);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
