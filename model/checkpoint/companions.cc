#include "model/checkpoint/companions.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "model/files/mapped_file.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_tokenizer.h"

namespace moonring::model {
namespace {

absl::StatusOr<std::vector<std::string>> GgufFilesIn(const std::string& folder) {
  RETURN_IF_ERROR(base::CheckReading(folder));
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::EndsWith(entry->path().native(), ".gguf")) files.push_back(entry->path().native());
  }
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool PathExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool IsCompanion(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"added_tokens.json",  "chat_template.jinja",
                                          "chat_template.json", "generation_config.json",
                                          "merges.txt",         "special_tokens_map.json",
                                          "spiece.model",       "tekken.json",
                                          "vocab.json",         "vocab.txt"};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  if (absl::StartsWith(name, "tokenizer") || absl::EndsWith(name, ".tiktoken")) return true;
  // Files of processors for images, for video, or for both.
  if (absl::EndsWith(name, "processor_config.json")) return true;
  return absl::EndsWith(name, ".py") &&
         (absl::StartsWith(name, "tokenization_") || absl::StartsWith(name, "configuration_") ||
          absl::StartsWith(name, "modeling_"));
}

absl::StatusOr<Companions> CompanionsIn(const std::string& folder) {
  Companions companions;
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    // A folder is skipped. A pipe or a device causes an error when it is opened.
    if (!IsCompanion(name) || entry->is_directory(ignored)) continue;
    RETURN_IF_ERROR(base::CheckWholeFile(entry->path().native()));
    ASSIGN_OR_RETURN(const auto contents, MappedFile::Open(entry->path().native()));
    companions[name] = std::string(contents->bytes());
  }
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  return companions;
}

absl::StatusOr<std::string> TheGgufIn(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, GgufFilesIn(folder));
  const bool parts = !files.empty() && absl::StrContains(files[0], "-00001-of-");
  if (files.size() == 1 || parts) return files[0];
  if (files.empty() && PathExists(folder + "/adapter_config.json")) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     ": an adapter; name the model that it is for, and this folder as "
                     "adapter_name_or_path"));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, ": neither config.json nor a .gguf file"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": ", files.size(), " .gguf files: name one of ", absl::StrJoin(files, ", ")));
}

absl::StatusOr<Companions> CompanionsOf(const std::string& path) {
  // This check comes first, so that nothing about the path is revealed if reading it is not
  // allowed.
  RETURN_IF_ERROR(base::CheckReading(path));
  if (path.empty() || !PathExists(path)) {
    return absl::NotFoundError(absl::StrCat("model_name_or_path: no folder or file '", path, "'"));
  }
  std::error_code ignored;
  std::string file = path;
  if (std::filesystem::is_directory(path, ignored)) {
    ASSIGN_OR_RETURN(Companions companions, CompanionsIn(path));
    if (!companions.empty() || PathExists(path + "/config.json")) return companions;
    ASSIGN_OR_RETURN(file, TheGgufIn(path));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const GgufFile> gguf, GgufFile::Open(file));
  return TokenizerFilesFromGguf(*gguf);
}

}  // namespace moonring::model
