// A row of a stream of several data sets, and where it can be read again: a state holds that in
// place of the row.
#ifndef MOONRING_DATA_STREAM_STREAM_ROW_H_
#define MOONRING_DATA_STREAM_STREAM_ROW_H_

#include <cstdint>

#include "data/files/row.h"
#include "data/files/row_source.h"

namespace moonring::data {

struct StreamRow {
  Row row;
  int64_t dataset = 0;
  RowPlace place;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_STREAM_ROW_H_
