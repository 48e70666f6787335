#include "data/tokenized_folder.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "data/example_table.h"
#include "data/files/arrow_library.h"
#include "data/files/arrow_reader.h"
#include "data/files/arrow_sink.h"
#include "data/files/row.h"
#include "data/text/json/json_fields.h"
#include "data/text/json/python_json.h"

namespace moonring::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kSplits[] = "dataset_dict.json", kState[] = "state.json",
               kInfo[] = "dataset_info.json", kData[] = "data-00000-of-00001.arrow";

json FeaturesOf(const std::vector<ArrowField>& fields) {
  json features = json::object();
  for (const ArrowField& field : fields) {
    const char* dtype = field.type == ArrowType::kBool        ? "bool"
                        : field.type == ArrowType::kInt8List  ? "int8"
                        : field.type == ArrowType::kInt32List ? "int32"
                                                              : "int64";
    const json value = {{"dtype", dtype}, {"_type", "Value"}};
    features[field.name] =
        field.type == ArrowType::kBool ? value : json{{"feature", value}, {"_type", "List"}};
  }
  return features;
}

absl::Status WriteJson(const fs::path& path, const json& value) {
  return base::WriteWhole(path, absl::StrCat(value.dump(2), "\n"));
}

absl::Status MakeFolder(const fs::path& path) {
  RETURN_IF_ERROR(base::CheckWriting(path));
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat(path.string(), ": cannot be made: ", error.message()));
  return absl::OkStatus();
}

absl::Status SaveSplit(const fs::path& folder, const std::string& name,
                       const std::vector<Example>& examples, Stage stage) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::vector<ArrowField> fields =
      ExampleFields(stage, !examples.empty() && IsPackedRow(examples[0]));
  const json features = FeaturesOf(fields);
  ASSIGN_OR_RETURN(void* const function, ArrowFunction(kOpenArrowSink));
  const std::string path = folder / kData;
  RETURN_IF_ERROR(base::CheckWriting(path));
  std::string error;
  const std::unique_ptr<ArrowSink> sink(reinterpret_cast<OpenArrowSinkFunction*>(function)(
      path.c_str(), fields, json{{"info", {{"features", features}}}}.dump(), error));
  bool written = sink != nullptr;
  for (size_t i = 0; written && i < examples.size(); ++i)
    written = sink->Add(ExampleRow(examples[i], stage).values(), error);
  if (!written || !sink->Close(error))
    return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", error));
  RETURN_IF_ERROR(WriteJson(folder / kInfo, {{"citation", ""},
                                             {"description", ""},
                                             {"features", features},
                                             {"homepage", ""},
                                             {"license", ""}}));
  return WriteJson(folder / kState, {{"_data_files", {{{"filename", kData}}}},
                                     {"_fingerprint", "moonring"},
                                     {"_format_columns", nullptr},
                                     {"_format_kwargs", json::object()},
                                     {"_format_type", nullptr},
                                     {"_output_all_columns", false},
                                     {"_split", name}});
}

absl::StatusOr<json> ReadJson(const fs::path& path) {
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return absl::NotFoundError(absl::StrCat(
        path.string(), ": no such file: this is no folder of prepared data, or a part of one"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return ParseJson(text, path.string());
}

// Appends the row's length column to `lengths`. Either all rows have the column or none.
absl::Status TakeLength(const OrderedJson& row, const std::string& column, size_t rows,
                        std::vector<int64_t>& lengths) {
  const auto found = row.find(column);
  const bool is_there = found != row.end();
  if (!is_there && lengths.empty()) return absl::OkStatus();
  if (!is_there || !found->is_number_integer() || lengths.size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("column '", column,
                                                   "': expected a whole number in each row, got ",
                                                   is_there && found->is_primitive() ? found->dump()
                                                   : is_there ? found->type_name()
                                                              : "none"));
  }
  lengths.push_back(found->get<int64_t>());
  return absl::OkStatus();
}

absl::Status Broken(const fs::path& file, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(file.string(), ": ", what));
}

// The Arrow files of a split, in row order.
absl::StatusOr<std::vector<std::string>> FilesOf(const fs::path& folder) {
  const fs::path state_file = folder / kState;
  ASSIGN_OR_RETURN(const json state, ReadJson(state_file));
  const auto files = state.is_object() ? state.find("_data_files") : state.end();
  if (!state.is_object() || files == state.end() || !files->is_array() || files->empty())
    return Broken(state_file, "names no files in '_data_files'");
  if (fs::exists(folder / "indices.arrow") || !state.value("_indices_files", json()).is_null()) {
    return Broken(state_file,
                  "its rows are chosen by a list of indices, which is not supported: save the data "
                  "set again with flatten_indices()");
  }
  std::vector<std::string> paths;
  for (const json& file : *files) {
    if (!file.is_object() || !file.contains("filename") || !file["filename"].is_string())
      return Broken(state_file, "names no files in '_data_files'");
    paths.push_back(folder / file["filename"].get<std::string>());
  }
  return paths;
}

// The folder of each split, by name.
absl::StatusOr<std::map<std::string, fs::path>> SplitsOf(const fs::path& folder) {
  RETURN_IF_ERROR(base::CheckReading(folder));
  std::map<std::string, fs::path> found;
  if (!fs::exists(folder / kSplits) && fs::exists(folder / kState)) {
    found["train"] = folder;
    return found;
  }
  ASSIGN_OR_RETURN(const json dict, ReadJson(folder / kSplits));
  const json splits = dict.is_object() ? dict.value("splits", json()) : json();
  for (const json& name : splits.is_array() ? splits : json::array()) {
    if (!name.is_string())
      return absl::InvalidArgumentError(absl::StrCat(
          (folder / kSplits).string(), ": expected names of splits, got ", name.dump()));
    found[name] = folder / name.get<std::string>();
  }
  if (!found.contains("train")) return Broken(folder / kSplits, "has no split 'train'");
  return found;
}

absl::StatusOr<PreparedDataset> LoadSplit(const fs::path& folder, Stage stage, int32_t pad,
                                          const std::string& length_column) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(folder));
  PreparedDataset prepared;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> reader,
                     ArrowReader::Open(file, /*parquet=*/false));
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Row> row, reader->Next());
      if (!row.has_value()) break;
      ASSIGN_OR_RETURN(Example example, ReadExample(row->value, stage, pad), Where(*row));
      if (!length_column.empty())
        RETURN_IF_ERROR(
            TakeLength(row->value, length_column, prepared.examples.size(), prepared.lengths),
            Where(*row));
      prepared.report.CountPrepared(example);
      prepared.examples.push_back(std::move(example));
    }
  }
  if (prepared.examples.empty()) return Broken(folder / kData, "holds no row");
  return prepared;
}

// Temporary path NAME.HOST.PID.part, where this process writes before renaming to `named`.
fs::path DraftOf(const fs::path& named) {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, HOST_NAME_MAX);
  return absl::StrCat(named.string(), ".", host, ".", getpid(), ".part");
}

// Removes temporary folders of dead processes on this machine.
void SweepDrafts(const fs::path& named) {
  const std::string mine = DraftOf(named).filename().string();
  const absl::string_view begin = absl::StripSuffix(mine, absl::StrCat(getpid(), ".part"));
  std::error_code error;
  std::vector<fs::path> dead;
  for (const auto& entry : fs::directory_iterator(named.parent_path(), error)) {
    absl::string_view name = entry.path().native();
    name.remove_prefix(name.rfind('/') + 1);
    pid_t pid = 0;
    if (absl::ConsumePrefix(&name, begin) && absl::ConsumeSuffix(&name, ".part") &&
        absl::SimpleAtoi(name, &pid) && kill(pid, 0) != 0 && errno == ESRCH)
      dead.push_back(entry.path());
  }
  for (const fs::path& draft : dead) fs::remove_all(draft, error);
}

}  // namespace

bool HasTokenized(const std::string& folder) {
  if (!base::CheckReading(folder).ok()) return false;  // the later read or write reports the error
  std::error_code error;
  return fs::is_directory(folder, error) && !fs::is_empty(folder, error);
}

absl::Status SaveTokenized(const std::string& folder,
                           const std::map<std::string, const std::vector<Example>*>& splits,
                           Stage stage) {
  const fs::path target = fs::absolute(folder).lexically_normal();
  const fs::path named = target.has_filename() ? target : target.parent_path();
  const fs::path draft = DraftOf(named);
  RETURN_IF_ERROR(base::CheckWriting(named));
  RETURN_IF_ERROR(base::CheckWriting(draft));
  std::error_code error;
  fs::remove_all(draft, error);
  SweepDrafts(named);
  const auto write = [&]() -> absl::Status {
    json names = json::array();
    for (const auto& [name, examples] : splits) {
      names.push_back(name);
      RETURN_IF_ERROR(SaveSplit(draft / name, name, *examples, stage));
    }
    return WriteJson(draft / kSplits, {{"splits", names}});
  };
  absl::Status status = write();
  if (status.ok()) {
    fs::remove(named, error);  // removes an empty folder, if there is one
    fs::rename(draft, named, error);
    if (error && HasTokenized(folder))
      status = absl::AlreadyExistsError(
          absl::StrCat(folder, ": another process has written it meanwhile"));
    else if (error)
      status = absl::UnavailableError(
          absl::StrCat(named.string(), ": cannot be written: ", error.message()));
  }
  if (!status.ok()) fs::remove_all(draft, error);
  return status;
}

absl::StatusOr<std::vector<std::string>> TokenizedTrainFiles(const std::string& folder) {
  ASSIGN_OR_RETURN(auto splits, SplitsOf(folder));
  return FilesOf(splits["train"]);
}

absl::StatusOr<std::map<std::string, PreparedDataset>> LoadTokenized(
    const std::string& folder, Stage stage, int32_t pad, const std::string& length_column,
    bool with_train) {
  ASSIGN_OR_RETURN(auto splits, SplitsOf(folder));
  if (!with_train) splits.erase("train");
  std::map<std::string, PreparedDataset> loaded;
  for (const auto& [name, path] : splits) {
    ASSIGN_OR_RETURN(loaded[name], LoadSplit(path, stage, pad, length_column));
  }
  return loaded;
}

}  // namespace moonring::data
