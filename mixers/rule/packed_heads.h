#ifndef MOONRING_MIXERS_RULE_PACKED_HEADS_H_
#define MOONRING_MIXERS_RULE_PACKED_HEADS_H_

// Converts some heads of the gated delta rule's inputs (delta_inputs.h) to the packed form, a grid
// of chunks (document_chunks.h), and gradients in packed form to gradients of the inputs.

#include <vector>

#include "mixers/rule/delta_chunks.h"
#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/document_chunks.h"

namespace moonring::mixers {

inline constexpr int64_t kDeltaChunk = 64;  // tokens

// Maximal size of one tensor [N, H, C, width] of the heads and chunks that are processed at once,
// in numbers; the backward has about thirty such tensors at a time. On a CPU they should fit a
// core's caches: with half a MiB (in fp32) the rule was a fifth faster than with 8 MiB. On a GPU
// the size is 64 MiB: with smaller tensors the GPU is partly idle, and a scan takes as long for few
// heads as for many.
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

// All heads and all rounds of a grid (document_chunks.h), divided so that working memory is
// bounded. A slice has as many heads as fit for one round, at least one key head; a part has as
// many rounds as fit for these heads, at least one. For each slice of heads the states are passed
// from part to part.
struct DeltaTiles {
  std::vector<HeadSlice> slices;
  std::vector<DocumentChunks> parts;  // in the order of the rounds
};
DeltaTiles TilesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options);

// How many key heads, with `groups` value heads each, can be processed at once if a working tensor
// has at most `numbers` numbers and a round has `documents` documents. `width`: the greater of d_k
// and d_v.
int64_t KeysAtOnce(int64_t numbers, int64_t documents, int64_t width, int64_t groups);

// Converts these heads of the inputs to packed form. An undefined q stays undefined.
DeltaChunks PackHeads(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                      const DeltaOptions& options);

// Converts gradients in packed form. Writes them to these heads and the grid's tokens of
// `gradients`, whose tensors have the inputs' shapes. `initial_DHVK` is not changed.
void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_PACKED_HEADS_H_
