#include "data/files/row.h"

#include "absl/strings/str_cat.h"

namespace moonring::data {

std::string Where(const Row& row) {
  return row.line > 0 ? absl::StrCat(row.file, ":", row.line, " (row ", row.number, ")")
                      : absl::StrCat(row.file, " (row ", row.number, ")");
}

}  // namespace moonring::data
