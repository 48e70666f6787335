#ifndef MOONRING_MIXERS_PACKED_HEADS_H_
#define MOONRING_MIXERS_PACKED_HEADS_H_

// Some heads of the gated delta rule's inputs (delta_inputs.h) as a grid of chunks, and gradients
// of the grid as those of the inputs.

#include <vector>

#include "mixers/delta_chunks.h"
#include "mixers/delta_inputs.h"
#include "mixers/document_chunks.h"

namespace moonring::mixers {

inline constexpr int64_t kDeltaChunk = 64;  // tokens

// Key heads [begin, begin + keys) and the value heads that read them.
struct HeadSlice {
  int64_t begin = 0, keys = 0, groups = 1;
  at::Tensor OfKeys(const at::Tensor& x_TH) const { return x_TH.narrow(1, begin, keys); }
  at::Tensor OfValues(const at::Tensor& x_TH) const {
    return x_TH.narrow(1, begin * groups, keys * groups);
  }
};

// How many numbers the heads that go together may have in one tensor of [N, H, C, width]: 8 MiB in
// fp32, of which backward holds some thirty at a time. No slower than 64 MiB.
inline constexpr int64_t kWorkingNumbers = int64_t{1} << 21;
// By the kernels of fused_delta.h, 64 MiB: with less a GPU is idle, and its scan takes as long for
// few heads as for many.
inline constexpr int64_t kWorkingNumbersOfGpu = int64_t{1} << 24;

// All heads, cut so that the working memory of those that go together is bounded; one key head at
// least.
std::vector<HeadSlice> SlicesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                                int64_t working_numbers = kWorkingNumbers);

// How many key heads go together, of `groups` value heads each, where a grid has so many chunks;
// `width`: the greatest of d_k and d_v.
int64_t KeysAtOnce(int64_t chunks, int64_t width, int64_t groups,
                   int64_t working_numbers = kWorkingNumbers);

// An undefined q stays so.
DeltaChunks PackHeads(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                      const DeltaOptions& options);

// Writes those heads' rows of `gradients`, tensors of the inputs' shapes. `initial_DHVK` is left
// alone.
void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_PACKED_HEADS_H_
