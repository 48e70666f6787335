#ifndef MOONRING_OBJECTIVES_VOCABULARY_ROW_BLOCKS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ROW_BLOCKS_H_

// Processes logits a few rows at a time. A row is read several times, so a block of rows that fits
// a core's cache is finished before the next one.

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "base/memory/memory_account.h"

namespace moonring::objectives {

// Size of one block; intermediate results of operators on it have the same size.
inline constexpr int64_t kBlockBytes = 256 << 10;

// Calls fn(begin, end) over blocks of rows, in parallel on the CPU, in one block elsewhere. fn runs
// without gradients, and its tensors are accounted under the caller's MemoryPart
// (base/memory/memory_account.h).
template <class F>
void ForEachBlock(const at::Tensor& rows_RV, const F& fn) {
  const int64_t rows = rows_RV.size(0);
  if (!rows_RV.is_cpu()) return fn(0, rows);
  const int64_t row_bytes = std::max<int64_t>(1, rows_RV.size(1) * rows_RV.element_size());
  const int64_t block = std::max<int64_t>(1, kBlockBytes / row_bytes);
  const base::MemoryPart part = base::CurrentMemoryPart();
  at::parallel_for(0, (rows + block - 1) / block, 1, [&](int64_t first, int64_t last) {
    const base::MemoryScope memory(part);
    at::NoGradGuard no_grad;  // grad mode is thread-local
    for (int64_t i = first; i < last; ++i) fn(i * block, std::min(rows, (i + 1) * block));
  });
}

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ROW_BLOCKS_H_
