// Writing interface of libmoonring_arrow.so: rows of integer lists and booleans as an Arrow IPC
// stream, the format in which the datasets library stores a data set.
#ifndef MOONRING_DATA_FILES_ARROW_SINK_H_
#define MOONRING_DATA_FILES_ARROW_SINK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moonring::data {

enum class ArrowType { kInt8List, kInt32List, kInt64List, kBool };

struct ArrowField {
  std::string name;
  ArrowType type;
};

class ArrowSink {
 public:
  virtual ~ArrowSink() = default;

  // Adds a row: one span per field; a boolean field has a span of one number. Returns false on an
  // error and sets `error`. Does not throw.
  virtual bool Add(const std::vector<std::span<const int32_t>>& row, std::string& error) = 0;
  virtual bool Close(std::string& error) = 0;
};

// Returns null on an error and sets `error`. `metadata`: the value of the schema's metadata key
// "huggingface".
using OpenArrowSinkFunction = ArrowSink*(const char* path, const std::vector<ArrowField>& fields,
                                         const std::string& metadata, std::string& error);
inline constexpr char kOpenArrowSink[] = "MoonringOpenArrowSink";

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_SINK_H_
