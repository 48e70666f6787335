#include "data/description/column_check.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest_name.h"

namespace moonring::data {

absl::StatusOr<std::vector<std::string>> CheckColumns(const DatasetDescription& description,
                                                      Stage stage,
                                                      const std::set<std::string>& keys,
                                                      bool read_all) {
  std::vector<std::string> without;
  const auto has = [&](const Column& column) {
    return column.has_value() && keys.contains(*column);
  };
  const bool alpaca = description.formatting == "alpaca";
  const bool has_text = has(description.columns.prompt) || has(description.columns.query);
  for (const UsedColumn& used : UsedColumns(description, stage)) {
    if (!used.column.has_value() || has(used.column)) continue;
    const absl::string_view key = used.key;
    const bool missing_text = alpaca && !has_text && (key == "prompt" || key == "query");
    const bool missing =
        missing_text ||
        (used.needed && key != "response");  // rows with a null response are reported as skipped
    if (!missing && !(read_all && (description.columns.named || key == "prompt"))) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    const bool may_lack = description.formatting == "openai" && (key == "system" || key == "tools");
    if (may_lack && base::NearestName(*used.column, known).empty()) {
      without.push_back(*used.column);
      continue;
    }
    const std::string files =
        absl::StrCat(description.files.front(), description.files.size() > 1 ? ", ..." : "");
    return absl::InvalidArgumentError(absl::StrCat(
        files, ": no row has the key '", *used.column, "', which is to be its ", key,
        base::DidYouMean(*used.column, known), "; rows have ", absl::StrJoin(known, ", "),
        "; 'columns' in the description says which key is which"));
  }
  // Image, video and audio columns may be missing from all rows. A row that has one is rejected
  // when it is read.
  for (const Column* column :
       {&description.columns.images, &description.columns.videos, &description.columns.audios}) {
    if (read_all && column->has_value() && !has(*column)) without.push_back(**column);
  }
  return without;
}

}  // namespace moonring::data
