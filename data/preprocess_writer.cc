#include "data/preprocess_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace moonring::data {

std::string PreprocessedLine(const Example& example) {
  return absl::StrCat("{\"input_ids\": [", absl::StrJoin(example.ids, ", "), "], \"labels\": [", absl::StrJoin(example.labels, ", "), "]}");
}

absl::Status WritePreprocessed(const std::string& path, absl::Span<const Example> examples) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  bool written = true;
  for (const Example& example : examples) {
    const std::string line = absl::StrCat(PreprocessedLine(example), "\n");
    written = written && std::fwrite(line.data(), 1, line.size(), file) == line.size();
  }
  written = std::fclose(file) == 0 && written;
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  std::remove(temporary.c_str());
  return status;
}

}  // namespace moonring::data
