// What a row of a data set, and a file of rows, may take, whatever kind of file it is. Few bytes of
// a file can stand for much more: compressed data, holes, values by reference (a dictionary's text,
// named a hundred thousand times), lists of nulls. Readers check before they make or take anything.
#ifndef MOONRING_DATA_FILES_ROW_LIMITS_H_
#define MOONRING_DATA_FILES_ROW_LIMITS_H_

#include <cstdint>

namespace moonring::data {

// A row: the bytes of its texts (in a file of text: its own), and the values in its lists. A member
// of an object takes as much memory as eight of these.
inline constexpr int64_t kMostRowBytes = int64_t{256} << 20, kMostRowValues = int64_t{16} << 20,
                         kValuesOfMember = 8;

// All rows of a file that has `bytes` bytes. Columns of nulls and of repeated values cost nothing,
// so that 500 bytes can name 2^60 rows.
constexpr int64_t MostRowsOf(int64_t bytes) { return 100'000 + 10 * bytes; }
constexpr int64_t MostValuesOf(int64_t bytes) { return (int64_t{64} << 20) + 256 * bytes; }
constexpr int64_t MostTextOf(int64_t bytes) { return (int64_t{256} << 20) + 256 * bytes; }

// What of an Arrow or Parquet file is decompressed at a time. (A row group of text is seldom more
// than 20 times its compressed size.)
constexpr int64_t MostDecompressed(int64_t bytes) { return (int64_t{512} << 20) + 16 * bytes; }

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_LIMITS_H_
