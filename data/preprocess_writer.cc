#include "data/preprocess_writer.h"

#include <memory>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "data/packed_rows.h"

namespace moonring::data {
namespace {

std::string Fields(const Document& document, absl::string_view prefix) {
  return absl::StrCat("\"", prefix, "input_ids\": [", absl::StrJoin(document.ids, ", "), "], \"",
                      prefix, "labels\": [", absl::StrJoin(document.labels, ", "), "]");
}

}  // namespace

std::string PreprocessedLine(const Example& example) {
  const std::vector<Document>& documents = example.documents;
  if (example.padding.has_value()) {
    const Document row = JoinedRow(documents, *example.padding);
    return absl::StrCat("{", Fields(row, ""), ", \"position_ids\": [",
                        absl::StrJoin(row.positions, ", "), "]}");
  }
  if (!example.row.empty()) {
    return absl::StrCat("{\"input_ids\": [", absl::StrJoin(documents[0].ids, ", "),
                        "], \"row\": ", example.row, "}");
  }
  if (documents.size() == 1) return absl::StrCat("{", Fields(documents[0], ""), "}");
  TORCH_CHECK(documents.size() == 2, "an example has one or two documents, got ", documents.size());
  if (!example.desirable.has_value())
    return absl::StrCat("{", Fields(documents[0], "chosen_"), ", ",
                        Fields(documents[1], "rejected_"), "}");
  return absl::StrCat("{", Fields(documents[0], ""), ", ", Fields(documents[1], "kl_"),
                      ", \"kto_tag\": ", *example.desirable ? "true" : "false", "}");
}

absl::Status WritePreprocessed(const std::string& path, absl::Span<const Example> examples) {
  ASSIGN_OR_RETURN(const std::unique_ptr<base::OutputFile> file, base::OutputFile::Create(path));
  for (const Example& example : examples)
    RETURN_IF_ERROR(file->Append(absl::StrCat(PreprocessedLine(example), "\n")));
  return file->Commit();
}

}  // namespace moonring::data
