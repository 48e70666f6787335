#ifndef MOONRING_ATTENTION_VARLEN_PARTS_H_
#define MOONRING_ATTENTION_VARLEN_PARTS_H_

// The tiles of a ragged call, divided into calls of kernels: cuDNN takes one long tile a call,
// flash attention the runs of others between them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernel_choice.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

// Tiles [first, last) of a call: one for cuDNN, or some for flash attention.
struct VarlenPart {
  size_t first, last;
  bool is_cudnns;
  int64_t rows = 0, longest = 0;  // query rows of all its tiles, and of the longest one
};

// The greater of the keys' and the values' head dim: flash attention and cuDNN have one for both.
int64_t GreaterDim(const VarlenTiles& tiles);

std::vector<VarlenPart> PartsOf(const VarlenTiles& tiles, const KernelChoice& choice);

at::Tensor RowsOfPart(const at::Tensor& rows, const std::vector<int64_t>& offsets,
                      const VarlenPart& part);

// The call of one part. `number`: its place among the parts, under which the call keeps its offsets
// on the device.
VarlenTiles CallOfPart(const VarlenTiles& tiles, const VarlenPart& part, size_t number);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_VARLEN_PARTS_H_
