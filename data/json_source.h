// Streams the rows of .json and .jsonl files: one row is in memory at a time, however large the file.
//
// A file whose first character is '[' is one array, each element a row; any other holds one JSON value a line (empty lines
// are passed over), whatever its name ends in. Files are read in the order given. A UTF-8 byte order mark is passed over.
//
// Fails with `FILE:LINE:COLUMN: what is wrong` (both from 1, columns in characters), and on a file that cannot be opened or read.
// Cost: one pass, one parse a row; SaveState holds the byte offset, so LoadState does not read again what was read.
#ifndef MOONRING_DATA_JSON_SOURCE_H_
#define MOONRING_DATA_JSON_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/python_json.h"
#include "data/source.h"

namespace moonring::data {

struct Row {
  OrderedJson value;  // its keys in the file's order
  std::string file;
  int64_t number = 0;  // in its file, from 1
  int64_t line = 0;    // where it begins, from 1
};

// `FILE:LINE (row NUMBER)`: how messages name a row.
std::string Where(const Row& row);

class JsonSource final : public Source<Row> {
 public:
  static absl::StatusOr<std::unique_ptr<JsonSource>> Open(std::vector<std::string> files);
  ~JsonSource() override;

  absl::StatusOr<std::optional<Row>> Next() override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view state) override;

 private:
  class Reader;  // one open file

  explicit JsonSource(std::vector<std::string> files);
  absl::Status OpenFile(size_t file);

  std::vector<std::string> files_;
  size_t file_ = 0;
  std::unique_ptr<Reader> reader_;  // of files_[file_]; none at the end
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_JSON_SOURCE_H_
