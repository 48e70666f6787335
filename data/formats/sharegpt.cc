#include "data/formats/sharegpt.h"

#include "data/formats/messages.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertSharegpt(const nlohmann::json& row, const DatasetDescription& description, Stage stage) {
  return ConvertMessages(row, description, stage);
}

}  // namespace moonring::data
