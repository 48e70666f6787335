#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_

// Divides the tiles of a ragged call into kernel calls: cuDNN computes one long tile per call,
// flash attention the sequences of other tiles between them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// Tiles [first, last) of a call: one for cuDNN, or several for flash attention.
struct VarlenPart {
  size_t first, last;
  bool is_cudnns;
  int64_t rows = 0, longest = 0;  // query rows of all its tiles, and of the longest one
};

// The greater of the keys' and the values' head dim: flash attention and cuDNN need one for both.
int64_t GreaterDim(const VarlenTiles& tiles);

std::vector<VarlenPart> PartsOf(const VarlenTiles& tiles, const KernelChoice& choice);

at::Tensor RowsOfPart(const at::Tensor& rows, const std::vector<int64_t>& offsets,
                      const VarlenPart& part);

// The kernel call of one part. `number`: its index among the parts, under which the whole call
// caches its offsets on the device.
VarlenTiles CallOfPart(const VarlenTiles& tiles, const VarlenPart& part, size_t number);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_PARTS_H_
