#include "trainer/checkpoint/checkpoint_manifest.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/files/inside_name.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"
#include "base/text/ordered_json.h"
#include "trainer/checkpoint/durable_file.h"

namespace moonring::trainer {
namespace {

namespace fs = std::filesystem;
using Json = base::OrderedJson;

constexpr size_t kReadBytes = 1 << 20;

std::string PathIn(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name);
}

absl::StatusOr<SealedFile> Summed(int file, const std::string& path) {
  std::string buffer(kReadBytes, '\0');
  SealedFile sealed{.crc32 = static_cast<uint32_t>(crc32(0, nullptr, 0))};
  while (true) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read"));
    if (count == 0) return sealed;
    sealed.bytes += count;
    sealed.crc32 = static_cast<uint32_t>(crc32(
        sealed.crc32, reinterpret_cast<const Bytef*>(buffer.data()), static_cast<uInt>(count)));
  }
}

absl::StatusOr<SealedFile> SumOf(const std::string& path, bool flush) {
  RETURN_IF_ERROR(base::CheckInputFile(path));
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be opened"));
  const auto closed = absl::MakeCleanup([file] { close(file); });
  if (flush && fsync(file) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  return Summed(file, path);
}

// Reads a non-negative integer at `key`.
bool ParseCount(const Json& json, const char* key, int64_t& count) {
  if (!json.contains(key) || !json[key].is_number_unsigned()) return false;
  count = json[key].get<int64_t>();  // negative for values of 2^63 and more
  return count >= 0;
}

bool ParseFile(const Json& json, SealedFile& file) {
  if (!json.is_object() || !ParseCount(json, "bytes", file.bytes) || !json.contains("crc32") ||
      !json["crc32"].is_string())
    return false;
  return absl::SimpleHexAtoi(json["crc32"].get_ref<const std::string&>(), &file.crc32);
}

}  // namespace

std::string ManifestText(const CheckpointManifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files)
    files[name] = {{"bytes", file.bytes}, {"crc32", absl::StrFormat("%08x", file.crc32)}};
  Json json = {{"format", CheckpointManifest::kFormat},
               {"step", manifest.step},
               {"files", std::move(files)}};
  if (!manifest.failure.empty()) json["failure"] = manifest.failure;
  // The failure message may contain a folder name that is not UTF-8; invalid bytes are replaced.
  return absl::StrCat(json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace),
                      "\n");
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text) {
  if (!base::CheckJsonNesting(text).ok()) return absl::DataLossError("no manifest of a checkpoint");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer())
    return absl::DataLossError("no manifest of a checkpoint");
  if (json["format"] != CheckpointManifest::kFormat) {
    return absl::UnimplementedError(absl::StrCat("a checkpoint of format ", json["format"].dump(),
                                                 ", expected ", CheckpointManifest::kFormat));
  }
  CheckpointManifest manifest;
  if (!ParseCount(json, "step", manifest.step) || !json.contains("files") ||
      !json["files"].is_object()) {
    return absl::DataLossError("no manifest of a checkpoint");
  }
  if (json.contains("failure"))
    manifest.failure = json["failure"].is_string() ? json["failure"].get<std::string>()
                                                   : "a failure that is no text";
  for (const auto& [name, file] : json["files"].items()) {
    if (const absl::Status inside = base::CheckInsideName(name); !inside.ok())
      return absl::DataLossError(inside.message());
    if (!ParseFile(file, manifest.files[name]))
      return absl::DataLossError(absl::StrCat("what it says of ", name, " is broken"));
  }
  return manifest;
}

absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(const std::string& folder,
                                                            const std::vector<std::string>& names) {
  std::map<std::string, SealedFile> sealed;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(sealed[name], SumOf(PathIn(folder, name), /*flush=*/true));
  }
  return sealed;
}

absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(base::HeldFiles& files) {
  std::map<std::string, SealedFile> sealed;
  for (const std::string& name : files.names()) {
    SealedFile& file = sealed[name];
    file.crc32 = static_cast<uint32_t>(crc32(0, nullptr, 0));
    RETURN_IF_ERROR(files.WriteOut(name, [&](absl::string_view bytes) {
      file.bytes += static_cast<int64_t>(bytes.size());
      file.crc32 =
          static_cast<uint32_t>(crc32(file.crc32, reinterpret_cast<const Bytef*>(bytes.data()),
                                      static_cast<uInt>(bytes.size())));
    }));
  }
  return sealed;
}

absl::Status RemoveCheckpoint(const std::string& folder) {
  RETURN_IF_ERROR(base::CheckWriting(folder));
  const std::string removed = folder + ".removed";
  std::error_code code;
  fs::remove_all(removed, code);  // left over if a run was killed here
  fs::rename(folder, removed, code);
  if (code == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (!code) fs::remove_all(removed, code);
  return code ? absl::ErrnoToStatus(code.value(), absl::StrCat(folder, ": cannot be removed"))
              : absl::OkStatus();
}

absl::Status PublishCheckpoint(const std::string& draft, const std::string& folder,
                               const CheckpointManifest& manifest) {
  for (const auto& [name, file] : manifest.files) {
    std::error_code code;
    const auto bytes = fs::file_size(PathIn(draft, name), code);
    if (code || static_cast<int64_t>(bytes) != file.bytes) {
      return absl::DataLossError(
          absl::StrCat(PathIn(draft, name), code ? ": is gone" : ": changed after it was written"));
    }
  }
  for (const std::string& each : {draft, folder}) RETURN_IF_ERROR(base::CheckWriting(each));
  const std::string path = PathIn(draft, CheckpointManifest::kFileName);
  RETURN_IF_ERROR(base::WriteWhole(path, ManifestText(manifest)));
  RETURN_IF_ERROR(SumOf(path, /*flush=*/true).status());
  RETURN_IF_ERROR(base::FlushFolder(draft));
  RETURN_IF_ERROR(RemoveCheckpoint(folder));
  if (std::rename(draft.c_str(), folder.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat(draft, ": cannot be renamed to ", folder));
  return base::FlushFolder(fs::path(folder).parent_path().string());
}

absl::StatusOr<CheckpointManifest> CheckCheckpoint(const std::string& folder) {
  RETURN_IF_ERROR(base::CheckReading(folder));
  const std::string path = PathIn(folder, CheckpointManifest::kFileName);
  std::error_code code;
  if (!fs::exists(path, code))
    return absl::NotFoundError(absl::StrCat(folder, ": no ", CheckpointManifest::kFileName,
                                            ": it was never finished, or holds a model alone"));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ParseManifest(text), path);
  for (const auto& [name, file] : manifest.files) {
    const std::string of = PathIn(folder, name);
    const auto bytes = fs::file_size(of, code);
    if (code) return absl::DataLossError(absl::StrCat(folder, ": ", name, " is missing"));
    if (static_cast<int64_t>(bytes) != file.bytes) {
      return absl::DataLossError(
          absl::StrCat(folder, ": ", name, " has ", bytes, " bytes, expected ", file.bytes));
    }
  }
  for (const auto& [name, file] : manifest.files) {
    ASSIGN_OR_RETURN(const SealedFile found, SumOf(PathIn(folder, name), /*flush=*/false));
    if (found != file)
      return absl::DataLossError(absl::StrCat(folder, ": ", name,
                                              " is not what was written: its crc32 is ",
                                              absl::StrFormat("%08x", found.crc32), ", expected ",
                                              absl::StrFormat("%08x", file.crc32)));
  }
  return manifest;
}

}  // namespace moonring::trainer
