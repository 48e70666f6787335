#include "data/formats/openai.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "data/formats/messages.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertOpenai(const nlohmann::json& row, const DatasetDescription& description, Stage stage) {
  ASSIGN_OR_RETURN(ConvertedRow converted, ConvertMessages(row, description, stage));
  std::string& system = converted.conversation.system;
  if (system.empty()) {
    system = "detailed thinking off";
  } else if (!absl::StrContains(system, "detailed thinking on") && !absl::StrContains(system, "detailed thinking off")) {
    absl::StrAppend(&system, "\ndetailed thinking off");
  }
  return converted;
}

}  // namespace moonring::data
