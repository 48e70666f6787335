// Fuzzes a file of rows in Arrow's or Parquet's format.
#include <cstdint>

#include "data/files/arrow_reader.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const moonring::fuzz::InputFile input({reinterpret_cast<const char*>(data), size});
  for (const bool parquet : {false, true}) {
    const auto reader = moonring::data::ArrowReader::Open(input.path(), parquet);
    for (int rows = 0; reader.ok() && rows < 8; ++rows) {
      const auto row = (*reader)->Next();
      if (!row.ok() || !row->has_value()) break;
      (*row)->value.dump();
    }
  }
  return 0;
}
