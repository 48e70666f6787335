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

// How many numbers what goes together may have in one tensor of [N, H, C, width]; backward holds
// some thirty at a time. On a CPU what stays in a core's caches, half a MiB in fp32: measured, a
// fifth less time than 8 MiB. On a GPU 64 MiB: with less it is idle, and a scan takes as long for
// few heads as for many.
inline constexpr int64_t kCpuWorkingNumbers = int64_t{1} << 17,
                         kGpuWorkingNumbers = int64_t{1} << 24;

// Key heads [begin, begin + keys) and the value heads that read them.
struct HeadSlice {
  int64_t begin = 0, keys = 0, groups = 1;
  at::Tensor OfKeys(const at::Tensor& x_TH) const { return x_TH.narrow(1, begin, keys); }
  at::Tensor OfValues(const at::Tensor& x_TH) const {
    return x_TH.narrow(1, begin * groups, keys * groups);
  }
};

// All heads and all rounds, cut so that the working memory of what goes together is bounded: as
// many heads as have room for a round, and of these as many rounds. One key head and one round at
// least. For each slice the states go from part to part.
struct DeltaTiles {
  std::vector<HeadSlice> slices;
  std::vector<DocumentChunks> parts;  // in the order of the rounds
};
DeltaTiles TilesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options);

// How many key heads go together with so many `numbers`, of `groups` value heads each, where a
// round has so many documents; `width`: the greatest of d_k and d_v.
int64_t KeysAtOnce(int64_t numbers, int64_t documents, int64_t width, int64_t groups);

// An undefined q stays so.
DeltaChunks PackHeads(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                      const DeltaOptions& options);

// Writes those heads' rows of the grid's tokens of `gradients`, tensors of the inputs' shapes.
// `initial_DHVK` is left alone.
void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_PACKED_HEADS_H_
