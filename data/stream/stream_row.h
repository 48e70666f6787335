// A row of a stream, its data set and its position. A saved state contains the position, from which
// the row can be read again.
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
