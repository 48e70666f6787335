// A row of a data set: its JSON value, file, number and line.
#ifndef MOONRING_DATA_FILES_ROW_H_
#define MOONRING_DATA_FILES_ROW_H_

#include <cstdint>
#include <string>

#include "data/text/json/python_json.h"

namespace moonring::data {

struct Row {
  OrderedJson value;  // keys in the file's order
  std::string file;
  int64_t number = 0;  // number in its file, from 1
  int64_t line = 0;    // line where it begins, from 1; 0 if the file has no lines
};

// `FILE:LINE (row NUMBER)`, or `FILE (row NUMBER)` if the file has no lines; used in messages.
std::string Where(const Row& row);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_H_
