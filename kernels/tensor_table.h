#ifndef MOONRING_KERNELS_TENSOR_TABLE_H_
#define MOONRING_KERNELS_TENSOR_TABLE_H_

// Processes many tensors of any sizes in one launch, for .cu files. A table of the tensors is
// passed to the kernel as a parameter, which needs no copy and no wait, and each tensor is cut into
// pieces, one block each. Parameters are limited to 32,764 bytes, so a longer list is divided over
// several tables.
//
// A kernel declares its table parameter as KERNEL_TABLE(type) and reads it in place.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/language.h"

#ifdef __CUDACC__
#define KERNEL_TABLE(type) const __grid_constant__ type
#else
#define KERNEL_TABLE(type) const type&
#endif

namespace moonring::kernels::KERNEL_SIDE {

// Row: the kernel's description of one tensor; Row::count is its length.
template <typename Row>
struct TensorTable {
  static constexpr int kRows = 32000 / static_cast<int>(sizeof(Row) + sizeof(int64_t));

  Row rows[kRows];
  int64_t first_piece[kRows];  // per row; ascending
  int filled;

  // The row that contains `piece`: the last one with first_piece <= piece, because a row without
  // elements has no pieces.
  __device__ int RowOf(int64_t piece) const {
    int low = 0, high = filled;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_piece[middle] <= piece ? low : high) = middle;
    }
    return low;
  }
};

// Calls launch(table, pieces, first) for each table, which begins with rows[first] and has `pieces`
// pieces, possibly 0.
template <typename Row, class LaunchOne>
void ForEachTable(const std::vector<Row>& rows, int64_t piece, const LaunchOne& launch) {
  TensorTable<Row> table;
  for (size_t first = 0; first < rows.size(); first += table.filled) {
    table.filled = static_cast<int>(std::min<size_t>(table.kRows, rows.size() - first));
    int64_t pieces = 0;
    for (int i = 0; i < table.filled; ++i) {
      table.rows[i] = rows[first + i];
      table.first_piece[i] = pieces;
      pieces += (rows[first + i].count + piece - 1) / piece;
    }
    launch(table, pieces, first);
  }
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_TENSOR_TABLE_H_
