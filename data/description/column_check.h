// A column that no row has is a slip in a data set's description; but for `tools` and `system` of
// the openai format, which a row may do without, as in LLaMA-Factory, where rows have no name like
// it, and for pictures and sound.
#ifndef MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
#define MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"

namespace moonring::data {

// `keys`: of the rows that were read. Where they are not all (`read_all` is false) the others may
// have an optional column. Gives the names of the columns that all rows do without.
absl::StatusOr<std::vector<std::string>> CheckColumns(const DatasetDescription& description,
                                                      Stage stage,
                                                      const std::set<std::string>& keys,
                                                      bool read_all);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_COLUMN_CHECK_H_
