// What libmoonring_arrow.so offers: the rows of Parquet and Arrow files as JSON values. Host and
// library (data/files/arrow_library.h) are built together, by one compiler.
//
// Text is text, booleans and numbers are themselves, lists and structs (their fields by name) are
// arrays and objects, maps are arrays of {key, value}, a dictionary's values are those it names;
// dates and decimals are Arrow's text of them; binary data is null.
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

  // False at the end, and where something is wrong: then `error` says what. No exception leaves.
  virtual bool Next(base::OrderedJson& row, std::string& error) = 0;

  // Passes over rows, without reading the row groups or batches that they fill where the file
  // allows it. False as Next is.
  virtual bool Skip(int64_t rows, std::string& error) = 0;
};

// Of kind "parquet" or "arrow" (IPC, as a stream or a file). Null where something is wrong: then
// `error` says what.
using OpenArrowRowsFunction = ArrowRows*(const char* path, bool parquet, std::string& error);
inline constexpr char kOpenArrowRows[] = "MoonringOpenArrowRows";

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_ROWS_H_
