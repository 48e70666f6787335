// Reading interface of libmoonring_arrow.so: rows of Parquet and Arrow files as JSON values. The
// library (data/files/arrow_library.h) and its caller are built together with one compiler.
//
// Strings, booleans and numbers become the same JSON types; lists and structs become arrays and
// objects; maps become arrays of {key, value}; dictionary entries become the values they refer to;
// dates and decimals become Arrow's text for them; binary data becomes null.
#ifndef MOONRING_DATA_FILES_ARROW_ROWS_H_
#define MOONRING_DATA_FILES_ARROW_ROWS_H_

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/text/ordered_json.h"

namespace moonring::data {

class ArrowRows {
 public:
  virtual ~ArrowRows() = default;

  // Reads the next row. Returns false at the end and on an error; on an error, `error` is set. Does
  // not throw.
  virtual bool Next(base::OrderedJson& row, std::string& error) = 0;

  // Skips rows, where possible without reading the row groups or batches that contain them. Returns
  // false at the end and on an error, like Next.
  virtual bool Skip(int64_t rows, std::string& error) = 0;
};

// Opens a Parquet file or an Arrow file (IPC, stream or file format). Returns null on an error and
// sets `error`.
using OpenArrowRowsFunction = ArrowRows*(const char* path, bool parquet, std::string& error);
inline constexpr char kOpenArrowRows[] = "MoonringOpenArrowRows";

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_ROWS_H_
