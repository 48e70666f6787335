#include "data/description/dataset_info.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/files/inside_name.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "base/text/ordered_json.h"
#include "data/files/file_kind.h"
#include "data/text/json/json_fields.h"

namespace moonring::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> KnownKeys() {
  return {"hf_hub_url", "ms_hub_url",  "om_hub_url", "script_url", "cloud_file_name",
          "file_name",  "formatting",  "ranking",    "subset",     "split",
          "folder",     "num_samples", "columns",    "tags"};
}

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<json> ParseFile(const std::string& path) {
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return absl::NotFoundError(absl::StrCat(
        path,
        ": no such file: dataset_dir must hold a dataset_info.json that describes its data sets"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return ParseJson(text, path);
}

// Ignores unknown keys, except those that look like a misspelled known key.
absl::Status CheckKeys(const json& object, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (absl::c_linear_search(known, key)) continue;
    const std::string nearest = base::NearestName(key, known);
    if (!nearest.empty())
      return Invalid(absl::StrCat("unknown key '", key, "'", base::DidYouMean(key, known)));
  }
  return absl::OkStatus();
}

struct Field {
  const char* key;
  Column* column;
};

// Sets every field from `object`; fields that are absent or null become nullopt.
absl::Status ReadNames(const json& object, const std::vector<Field>& fields) {
  if (!object.is_object())
    return Invalid(absl::StrCat("expected an object of names, got ", object.type_name()));
  std::vector<std::string> known;
  for (const Field& field : fields) known.push_back(field.key);
  RETURN_IF_ERROR(CheckKeys(object, known));
  for (const Field& field : fields) {
    const auto found = object.find(field.key);
    *field.column = std::nullopt;
    if (found == object.end() || found->is_null()) continue;
    if (!found->is_string())
      return Invalid(absl::StrCat("'", field.key, "' must be a string, got ", found->type_name()));
    if (!found->get_ref<const std::string&>().empty()) *field.column = found->get<std::string>();
  }
  return absl::OkStatus();
}

std::vector<Field> FieldsOf(Columns& c) {
  return {{"prompt", &c.prompt},   {"query", &c.query},       {"response", &c.response},
          {"history", &c.history}, {"messages", &c.messages}, {"system", &c.system},
          {"tools", &c.tools},     {"images", &c.images},     {"videos", &c.videos},
          {"audios", &c.audios},   {"chosen", &c.chosen},     {"rejected", &c.rejected},
          {"kto_tag", &c.kto_tag}};
}

std::vector<Field> FieldsOf(Tags& t) {
  return {{"role_tag", &t.role_tag},
          {"content_tag", &t.content_tag},
          {"user_tag", &t.user_tag},
          {"assistant_tag", &t.assistant_tag},
          {"observation_tag", &t.observation_tag},
          {"function_tag", &t.function_tag},
          {"system_tag", &t.system_tag}};
}

absl::Status ReadColumnsAndTags(const json& entry, Columns& columns, Tags& tags) {
  if (const auto found = entry.find("columns"); found != entry.end()) {
    columns.named = true;
    RETURN_IF_ERROR(ReadNames(*found, FieldsOf(columns)), "columns");
  }
  if (const auto found = entry.find("tags"); found != entry.end())
    RETURN_IF_ERROR(ReadNames(*found, FieldsOf(tags)), "tags");
  return absl::OkStatus();
}

// Fails for a source that is not a local file. If there are several sources, the first key in this
// order counts, as in LLaMA-Factory.
absl::Status CheckSource(const json& entry) {
  for (const char* key :
       {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"}) {
    if (!entry.contains(key)) continue;
    if (key == absl::string_view("script_url")) {
      return Invalid(
          absl::StrCat("'script_url' ", entry[key].dump(),
                       " is a program, and programs of a data set are not run: save its rows to a "
                       "file, then describe that with 'file_name' in place of it"));
    }
    return Invalid(absl::StrCat(
        "'", key, "' ", entry[key].dump(),
        " is on the network: download it first, then describe it with 'file_name' in place of '",
        key, "'",
        entry.contains("file_name") ? " (which wins over 'file_name', as in LLaMA-Factory)" : ""));
  }
  if (!entry.contains("file_name")) return Invalid("has no 'file_name'");
  if (!entry["file_name"].is_string())
    return Invalid(
        absl::StrCat("'file_name' must be a string, got ", entry["file_name"].type_name()));
  return absl::OkStatus();
}

absl::Status ReadSplit(const json& entry, std::vector<SplitSlice>& slices) {
  const auto found = entry.find("split");
  if (found == entry.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_string())
    return Invalid(absl::StrCat("'split' must be a string, got ", found->type_name()));
  ASSIGN_OR_RETURN(slices, ParseSplit(found->get<std::string>()));
  return absl::OkStatus();
}

absl::Status ReadNumSamples(const json& entry, std::optional<int64_t>& num_samples) {
  const auto found = entry.find("num_samples");
  if (found == entry.end() || found->is_null()) return absl::OkStatus();
  constexpr int64_t kMost = int64_t{1} << 31;
  if (!found->is_number_integer() || *found < 1 || *found > kMost) {
    return Invalid(
        absl::StrCat("'num_samples' must be a number of rows, 1 to 2^31, got ", found->dump()));
  }
  num_samples = found->get<int64_t>();
  return absl::OkStatus();
}

absl::Status CheckKinds(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::optional<FileKind> kind = KindOfFile(file);
    if (!kind.has_value())
      return Invalid(absl::StrCat(file, ": of unknown kind '", fs::path(file).extension().string(),
                                  "'; ", kFileEndings, " can be read"));
    if (kind != KindOfFile(files[0]))
      return Invalid(absl::StrCat(file, ": of another kind than ", files[0],
                                  ", and the files of a folder must be of one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FindFiles(const std::string& path) {
  RETURN_IF_ERROR(base::CheckReading(path));
  std::error_code error;
  std::vector<std::string> files;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (!absl::StartsWith(entry.path().filename().string(), ".") && entry.is_regular_file(error))
        files.push_back(entry.path());
    }
    if (error)
      return absl::UnavailableError(
          absl::StrCat(path, ": the folder cannot be read: ", error.message()));
    if (files.empty()) return absl::NotFoundError(absl::StrCat(path, ": the folder holds no file"));
    std::sort(files.begin(), files.end());
  } else if (fs::exists(path, error)) {
    files.push_back(path);
  } else {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  RETURN_IF_ERROR(CheckKinds(files));
  return files;
}

// Reads the keys that describe how rows are converted: formatting, ranking, columns, tags.
absl::Status ReadForm(const json& entry, const std::vector<std::string>& formats,
                      DatasetDescription& description) {
  if (const auto formatting = entry.find("formatting"); formatting != entry.end()) {
    if (!formatting->is_string() ||
        !absl::c_linear_search(formats, formatting->get<std::string>())) {
      const std::string hint =
          formatting->is_string() ? base::DidYouMean(formatting->get<std::string>(), formats) : "";
      return Invalid(absl::StrCat("'formatting' is ", formatting->dump(), ", expected one of ",
                                  absl::StrJoin(formats, ", "), hint));
    }
    description.formatting = *formatting;
  }
  if (const auto ranking = entry.find("ranking"); ranking != entry.end()) {
    if (!ranking->is_boolean())
      return Invalid(absl::StrCat("'ranking' must be true or false, got ", ranking->dump()));
    description.ranking = *ranking;
  }
  return ReadColumnsAndTags(entry, description.columns, description.tags);
}

// Finds the files of a description in a hub checkout. The files and the targets of links must be
// inside the repository's folder.
absl::StatusOr<std::vector<std::string>> FindFilesOfCheckout(const fs::path& checkout,
                                                             const std::string& name) {
  RETURN_IF_ERROR(base::CheckInsideName(name), "file_name");
  const std::string repository = checkout.parent_path().parent_path().string();
  RETURN_IF_ERROR(base::CheckStaysBelow(repository, (checkout / name).string()));
  ASSIGN_OR_RETURN(std::vector<std::string> files, FindFiles(checkout / name));
  for (const std::string& file : files) RETURN_IF_ERROR(base::CheckStaysBelow(repository, file));
  return files;
}

struct Place {
  std::string dataset_dir;
  bool is_checkout = false;
};

absl::StatusOr<DatasetDescription> Describe(const Place& place, const std::string& name,
                                            const json& entry,
                                            const std::vector<std::string>& formats,
                                            const FetchedFiles* fetched) {
  if (!entry.is_object())
    return Invalid(absl::StrCat("expected an object, got ", entry.type_name()));
  RETURN_IF_ERROR(CheckKeys(entry, KnownKeys()));
  if (fetched == nullptr) RETURN_IF_ERROR(CheckSource(entry));
  DatasetDescription description{.name = name};
  RETURN_IF_ERROR(ReadForm(entry, formats, description));
  RETURN_IF_ERROR(ReadNumSamples(entry, description.num_samples));
  if (fetched != nullptr) {
    for (const std::string& file : fetched->files) RETURN_IF_ERROR(base::CheckReading(file));
    RETURN_IF_ERROR(CheckKinds(fetched->files));
    description.files = fetched->files;
    ASSIGN_OR_RETURN(description.slices, ParseSplit(fetched->split));
    return description;
  }
  RETURN_IF_ERROR(ReadSplit(entry, description.slices));
  const auto file_name = entry["file_name"].get<std::string>();
  ASSIGN_OR_RETURN(description.files, place.is_checkout
                                          ? FindFilesOfCheckout(place.dataset_dir, file_name)
                                          : FindFiles(fs::path(place.dataset_dir) / file_name));
  return description;
}

}  // namespace

absl::StatusOr<DatasetDescription> DescribeRows(const std::string& name, const json& entry,
                                                const std::vector<std::string>& formats) {
  if (!entry.is_object())
    return Invalid(absl::StrCat("expected an object, got ", entry.type_name()));
  const std::vector<std::string> known = {"formatting", "ranking", "columns", "tags"};
  for (const auto& [key, value] : entry.items()) {
    if (!absl::c_linear_search(known, key))
      return Invalid(absl::StrCat("unknown key '", key, "'", base::DidYouMean(key, known)));
  }
  DatasetDescription description{.name = name};
  RETURN_IF_ERROR(ReadForm(entry, formats, description));
  return description;
}

base::OrderedJson DescriptionJson(const DatasetDescription& description) {
  DatasetDescription copy = description;
  const auto names = [](const std::vector<Field>& fields) {
    base::OrderedJson object = base::OrderedJson::object();
    for (const Field& field : fields) {
      if (field.column->has_value()) object[field.key] = **field.column;
    }
    return object;
  };
  return {{"formatting", copy.formatting},
          {"ranking", copy.ranking},
          {"columns", names(FieldsOf(copy.columns))},
          {"tags", names(FieldsOf(copy.tags))}};
}

absl::StatusOr<std::vector<DatasetDescription>> ReadDatasetInfo(
    const std::string& dataset_dir, absl::Span<const std::string> names,
    const std::vector<std::string>& formats, const std::map<std::string, FetchedFiles>& fetched,
    bool is_checkout) {
  if (absl::StartsWith(dataset_dir, "REMOTE:")) {
    return Invalid(absl::StrCat("dataset_dir ", dataset_dir,
                                " is on a hub: download it first, and name the folder that holds "
                                "its dataset_info.json"));
  }
  const bool is_online = dataset_dir == "ONLINE";
  const std::string path =
      is_online ? dataset_dir : (fs::path(dataset_dir) / "dataset_info.json").string();
  json info = json::object();
  for (const std::string& name : names) {
    if (is_online) info[name] = {{"hf_hub_url", name}};
  }
  const auto has_entry = [&](const std::string& name) {
    const auto found = fetched.find(name);
    return found != fetched.end() && !found->second.entry.empty();
  };
  if (!is_online && (names.empty() || !absl::c_all_of(names, has_entry))) {
    ASSIGN_OR_RETURN(info, ParseFile(path));
  }
  if (!info.is_object())
    return Invalid(
        absl::StrCat(path, ": expected an object of data sets by name, got ", info.type_name()));
  for (const std::string& name : names) {
    if (!has_entry(name)) continue;
    ASSIGN_OR_RETURN(info[name], ParseJson(fetched.at(name).entry, name));
  }
  std::vector<std::string> known;
  for (const auto& [name, entry] : info.items()) known.push_back(name);
  std::vector<DatasetDescription> descriptions;
  for (const std::string& name : names) {
    if (!info.contains(name)) {
      return absl::NotFoundError(absl::StrCat(path, ": no data set '", name, "'",
                                              base::DidYouMean(name, known), "; there are ",
                                              known.empty() ? "none" : absl::StrJoin(known, ", ")));
    }
    const auto files = fetched.find(name);
    ASSIGN_OR_RETURN(DatasetDescription description,
                     Describe({dataset_dir, is_checkout}, name, info[name], formats,
                              files == fetched.end() ? nullptr : &files->second),
                     path, ": data set '", name, "'");
    descriptions.push_back(std::move(description));
  }
  return descriptions;
}

}  // namespace moonring::data
