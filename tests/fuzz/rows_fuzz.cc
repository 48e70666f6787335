// Fuzzes a data file of each text format, plain or compressed. It is read twice: from its
// beginning, and from the positions of the first rows.
#include <cstdint>
#include <memory>
#include <string>

#include "data/files/csv_reader.h"
#include "data/files/json_reader.h"
#include "data/files/text_reader.h"
#include "tests/fuzz/input_file.h"

namespace {

using moonring::data::RowReader;

// Reads all rows. The row after a saved state must be the same in a reader that seeks to that
// state.
void ReadAll(const std::string& path,
             absl::StatusOr<std::unique_ptr<RowReader>> (*open)(const std::string&)) {
  auto reader = open(path);
  if (!reader.ok()) return;
  for (int rows = 0; rows < 3; ++rows) {
    const RowReader::State state = (*reader)->state();
    const auto row = (*reader)->Next();
    auto other = open(path);
    if (!other.ok()) __builtin_trap();
    if (!(*other)->Seek(state).ok()) {  // the compressed data is broken at this point
      if (row.ok()) __builtin_trap();
      return;
    }
    const auto again = (*other)->Next();
    if (row.ok() != again.ok()) __builtin_trap();
    if (!row.ok() || !row->has_value()) return;
    if (!again->has_value() || (*row)->value != (*again)->value || (*row)->line != (*again)->line)
      __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const moonring::fuzz::InputFile input({reinterpret_cast<const char*>(data), size});
  ReadAll(input.path(), &moonring::data::JsonReader::Open);
  ReadAll(input.path(), &moonring::data::CsvReader::Open);
  ReadAll(input.path(), &moonring::data::TextReader::Open);
  return 0;
}
