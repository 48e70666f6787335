#ifndef MOONRING_MIXERS_RULE_PACKED_HEADS_H_
#define MOONRING_MIXERS_RULE_PACKED_HEADS_H_

// Packs some heads of the gated delta rule's inputs (delta_inputs.h) in a grid of chunks, and
// unpacks the gradients of the grid to those of the inputs.

#include <vector>

#include "mixers/rule/delta_chunks.h"
#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/document_chunks.h"

namespace moonring::mixers {

inline constexpr int64_t kDeltaChunk = 64;  // tokens

// Maximal size of one tensor [N, H, C, width] of the heads and chunks that are processed at once,
// in numbers; the backward has about thirty such tensors at a time. On a CPU they should fit a
// core's caches: half a MiB in fp32 measured a fifth faster than 8 MiB. On a GPU 64 MiB: with less
// it is partly idle, and a scan takes as long for few heads as for many.
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

// All heads and all rounds of a grid, cut so that working memory is bounded: as many heads as fit
// for one round, then as many rounds as fit for these heads; at least one key head and one round.
// For each slice of heads the states are passed from part to part.
struct DeltaTiles {
  std::vector<HeadSlice> slices;
  std::vector<DocumentChunks> parts;  // in the order of the rounds
};
DeltaTiles TilesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options);

// How many key heads, with `groups` value heads each, can be processed at once within `numbers`
// numbers where a round has this many documents. `width`: the greater of d_k and d_v.
int64_t KeysAtOnce(int64_t numbers, int64_t documents, int64_t width, int64_t groups);

// An undefined q stays undefined.
DeltaChunks PackHeads(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                      const DeltaOptions& options);

// Writes these heads' rows of the grid's tokens in `gradients`, tensors of the inputs' shapes. Does
// not touch `initial_DHVK`.
void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_PACKED_HEADS_H_
