#include "data/formats/openai.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/formats/message_fields.h"
#include "data/formats/messages.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

// An array of tools as JSON text. Each tool is an object or a string of JSON.
absl::StatusOr<std::string> ToolsText(const OrderedJson& tools, std::vector<std::string>& noted) {
  OrderedJson listed = tools.is_array() ? tools : OrderedJson::array({tools});
  for (OrderedJson& tool : listed) {
    if (tool.is_string()) {
      ASSIGN_OR_RETURN(tool, ParseOrderedJson(tool.get<std::string>()), "a tool");
    } else {
      tool = WithoutNulls(tool, noted);
    }
  }
  return PythonJson(listed);
}

}  // namespace

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
    if (tools->is_string()) {
      converted.conversation.tools = tools->get<std::string>();
    } else {
      ASSIGN_OR_RETURN(converted.conversation.tools, ToolsText(*tools, converted.noted),
                       absl::StrCat("'", *description.columns.tools, "'"));
    }
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
