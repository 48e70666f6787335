// What libmoonring_arrow.so offers to write: rows of lists of whole numbers and of booleans, as an
// Arrow stream (IPC), which is how the datasets library keeps a data set.
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

  // One span a field; a boolean's is one number. False where something is wrong: then `error` says
  // what. No exception leaves.
  virtual bool Add(const std::vector<std::span<const int32_t>>& row, std::string& error) = 0;
  virtual bool Close(std::string& error) = 0;
};

// Null where something is wrong. `metadata`: what the schema says under "huggingface".
using OpenArrowSinkFunction = ArrowSink*(const char* path, const std::vector<ArrowField>& fields,
                                         const std::string& metadata, std::string& error);
inline constexpr char kOpenArrowSink[] = "MoonringOpenArrowSink";

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_SINK_H_
