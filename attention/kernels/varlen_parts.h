#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_

// Divides the tiles of a ragged (varlen) call between two kernels. cuDNN computes one long tile per
// call; flash attention computes each run of other tiles between these in one call.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// Tiles [first, last) that one kernel call computes: one tile for cuDNN, or several for flash
// attention.
struct VarlenPart {
  size_t first, last;
  bool is_cudnns;
  int64_t rows = 0, longest = 0;  // query rows of all tiles together, and of the longest tile
};

// The greater of the keys' and the values' head dim: flash attention and cuDNN need one for both.
int64_t GreaterDim(const VarlenTiles& tiles);

std::vector<VarlenPart> PartsOf(const VarlenTiles& tiles, const KernelChoice& choice);

at::Tensor RowsOfPart(const at::Tensor& rows, const std::vector<int64_t>& offsets,
                      const VarlenPart& part);

// The kernel call of one part. `number`: the part's index in PartsOf's result. Its offsets on the
// device are cached under this index in `tiles`.
VarlenTiles CallOfPart(const VarlenTiles& tiles, const VarlenPart& part, size_t number);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_
