#include "data/formats/sharegpt.h"

#include <optional>
#include <string>

#include "base/status/status_macros.h"
#include "data/formats/messages.h"
#include "data/formats/row_fields.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertSharegpt(const OrderedJson& row,
                                             const DatasetDescription& description, Stage stage) {
  ASSIGN_OR_RETURN(ConvertedRow converted,
                   ConvertMessages(row, description, stage, ToolMessages::kInTurns));
  ASSIGN_OR_RETURN(const std::optional<std::string> tools,
                   TextField(row, description.columns.tools));
  converted.conversation.tools = tools.value_or("");
  return converted;
}

}  // namespace moonring::data
