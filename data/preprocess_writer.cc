#include "data/preprocess_writer.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/output_file.h"
#include "comm/status_macros.h"

namespace moonring::data {

std::string PreprocessedLine(const Example& example) {
  return absl::StrCat("{\"input_ids\": [", absl::StrJoin(example.ids, ", "), "], \"labels\": [", absl::StrJoin(example.labels, ", "), "]}");
}

absl::Status WritePreprocessed(const std::string& path, absl::Span<const Example> examples) {
  ASSIGN_OR_RETURN(const std::unique_ptr<comm::OutputFile> file, comm::OutputFile::Create(path));
  for (const Example& example : examples) RETURN_IF_ERROR(file->Append(absl::StrCat(PreprocessedLine(example), "\n")));
  return file->Commit();
}

}  // namespace moonring::data
