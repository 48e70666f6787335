// dataset_info.json, every data set in it asked for.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/dataset_info.h"
#include "data/json_fields.h"
#include "data/stage.h"

namespace {

namespace fs = std::filesystem;

// A dataset_dir of this process, in memory where the machine has such a place: it is written anew for each input.
class DatasetFolder {
 public:
  DatasetFolder() {
    std::error_code code;
    const fs::path parent = fs::is_directory("/dev/shm", code) ? fs::path("/dev/shm") : fs::temp_directory_path();
    path_ = parent / ("moonring_fuzz_" + std::to_string(getpid()));
    fs::create_directories(path_);
    std::ofstream(path_ / "rows.json") << "[]";
  }
  ~DatasetFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring::data;
  static const DatasetFolder folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::ofstream(folder.path() + "/dataset_info.json", std::ios::binary) << text;
  std::vector<std::string> names = {"rows"};
  if (const auto info = ParseJson(text, "input"); info.ok() && info->is_object()) {
    for (const auto& [name, entry] : info->items()) names.push_back(name);
  }
  for (const std::string& name : names) {
    const auto descriptions = ReadDatasetInfo(folder.path(), {name});
    if (!descriptions.ok()) continue;
    for (const Stage stage : {Stage::kPretraining, Stage::kSupervised, Stage::kPairs, Stage::kFeedback}) (void)CheckStage(descriptions->front(), stage);
  }
  return 0;
}
