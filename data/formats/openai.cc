#include "data/formats/openai.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"
#include "data/formats/messages.h"
#include "data/formats/row_fields.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertOpenai(const OrderedJson& row,
                                           const DatasetDescription& description, Stage stage) {
  ASSIGN_OR_RETURN(ConvertedRow converted,
                   ConvertMessages(row, description, stage, ToolMessages::kAsOpenai));
  if (const OrderedJson* tools = FindField(row, description.columns.tools); tools != nullptr) {
    if (!tools->is_string() && !tools->is_structured()) {
      return absl::InvalidArgumentError(absl::StrCat("'", *description.columns.tools,
                                                     "' must be an array or a string, got ",
                                                     tools->type_name()));
    }
    converted.conversation.tools =
        tools->is_string() ? tools->get<std::string>() : PythonJson(*tools);
  }
  std::string& system = converted.conversation.system;
  if (!converted.conversation.tools.empty()) {
    if (!system.empty()) system += "\n";
  } else if (system.empty()) {
    system = "detailed thinking off";
  } else if (!absl::StrContains(system, "detailed thinking on") &&
             !absl::StrContains(system, "detailed thinking off")) {
    absl::StrAppend(&system, "\ndetailed thinking off");
  }
  return converted;
}

}  // namespace moonring::data
