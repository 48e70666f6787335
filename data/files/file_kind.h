// The kind of a data file, by the extension of its name: .json and .jsonl (one kind), .csv, .txt,
// .parquet, .arrow. JSON, CSV and text files may be compressed, with a second extension .gz or
// .zst.
#ifndef MOONRING_DATA_FILES_FILE_KIND_H_
#define MOONRING_DATA_FILES_FILE_KIND_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace moonring::data {

enum class FileKind { kJson, kCsv, kText, kParquet, kArrow };

inline constexpr char kFileEndings[] =
    ".json, .jsonl, .csv and .txt (plain or with .gz or .zst behind), .parquet and .arrow";

// The kind by the path's extension; nullopt for other extensions.
std::optional<FileKind> KindOfFile(absl::string_view path);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_FILE_KIND_H_
