#include "data/files/file_kind.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace moonring::data {

std::optional<FileKind> KindOfFile(absl::string_view path) {
  if (absl::EndsWith(path, ".parquet")) return FileKind::kParquet;
  if (absl::EndsWith(path, ".arrow")) return FileKind::kArrow;
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  if (absl::EndsWith(path, ".json") || absl::EndsWith(path, ".jsonl")) return FileKind::kJson;
  if (absl::EndsWith(path, ".csv")) return FileKind::kCsv;
  if (absl::EndsWith(path, ".txt")) return FileKind::kText;
  return std::nullopt;
}

}  // namespace moonring::data
