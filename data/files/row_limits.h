// Limits on the size of a row and of all rows of a file, for all file kinds. A small file can
// expand to very large rows: compressed data, holes in a sparse file, dictionary entries that refer
// to one text a hundred thousand times, lists of nulls. Readers check the limits before they
// allocate.
#ifndef MOONRING_DATA_FILES_ROW_LIMITS_H_
#define MOONRING_DATA_FILES_ROW_LIMITS_H_

#include <cstdint>

namespace moonring::data {

// Limits of a row: bytes of its texts (in a text file: bytes of the row), and number of values in
// its lists. An object's member takes as much memory as eight values.
inline constexpr int64_t kMostRowBytes = int64_t{256} << 20, kMostRowValues = int64_t{16} << 20,
                         kValuesOfMember = 8;

// Limits for all rows of a file of `bytes` bytes. Columns of nulls or of repeated values take no
// space, so 500 bytes can encode 2^60 rows.
constexpr int64_t MostRowsOf(int64_t bytes) { return 100'000 + 10 * bytes; }
constexpr int64_t MostValuesOf(int64_t bytes) { return (int64_t{64} << 20) + 256 * bytes; }
constexpr int64_t MostTextOf(int64_t bytes) { return (int64_t{256} << 20) + 256 * bytes; }

// Limit of the data of an Arrow or Parquet file that is decompressed at one time. (A row group of
// text is seldom more than 20 times its compressed size.)
constexpr int64_t MostDecompressed(int64_t bytes) { return (int64_t{512} << 20) + 16 * bytes; }

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_LIMITS_H_
