// A row of a data set as its file holds it: a JSON value, and where it stands.
#ifndef MOONRING_DATA_FILES_ROW_H_
#define MOONRING_DATA_FILES_ROW_H_

#include <cstdint>
#include <string>

#include "data/text/json/python_json.h"

namespace moonring::data {

struct Row {
  OrderedJson value;  // its keys in the file's order
  std::string file;
  int64_t number = 0;  // in its file, from 1
  int64_t line = 0;    // where it begins, from 1; 0 in a file that has no lines
};

// `FILE:LINE (row NUMBER)`, or `FILE (row NUMBER)` where there are no lines: how messages name a
// row.
std::string Where(const Row& row);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_H_
