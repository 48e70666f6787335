// Fuzzes dataset_info.json, with a lookup of every data set in it.
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/format_table.h"
#include "data/text/json/json_fields.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring::data;
  static const moonring::fuzz::InputFolder folder;
  static const std::string rows = folder.Write("rows.json", "[]");
  const std::string text(reinterpret_cast<const char*>(data), size);
  folder.Write("dataset_info.json", text);
  std::vector<std::string> names = {"rows"};
  if (const auto info = ParseJson(text, "input"); info.ok() && info->is_object()) {
    for (const auto& [name, entry] : info->items()) names.push_back(name);
  }
  for (const std::string& name : names) {
    const auto descriptions = ReadDatasetInfo(folder.path(), {name}, RowFormatNames());
    if (!descriptions.ok()) continue;
    for (const Stage stage :
         {Stage::kPretraining, Stage::kSupervised, Stage::kPairs, Stage::kFeedback})
      (void)CheckStage(descriptions->front(), stage);
  }
  return 0;
}
