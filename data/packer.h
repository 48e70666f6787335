// A step's examples -> which dp rank computes which, in which micro-batches.
//
// Examples go to dp ranks by cost, the dearest first, each to the rank that has least so far; on a rank they go into
// micro-batches of at most micro_batch_tokens tokens, the longest first, each into the first that has room. A longer example
// goes alone. Ties fall to the earlier example and the lower rank, so the result is a function of the lengths and the options
// alone: not of sp, nor of the machine. In a micro-batch examples stand in the step's order, and micro-batches in that of their first.
//
// The cost of n tokens is n + n^2 / 16384: the second part is causal attention's area, which at a hidden size around 2700 equals
// the rest of a decoder block at that length. Only the balance over dp ranks depends on it, no result.
//
// Ranks may get different numbers of micro-batches, and none where the step has fewer examples than ranks.
// Cost: O(k log k + k x micro-batches) for k examples.
#ifndef MOONRING_DATA_PACKER_H_
#define MOONRING_DATA_PACKER_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "comm/sequence.h"
#include "data/example.h"

namespace moonring::data {

using Packing = std::vector<std::vector<std::vector<int64_t>>>;  // [dp rank][micro-batch] -> places in `lengths`

struct PackOptions {
  int64_t dp = 1;
  int64_t micro_batch_tokens = 0;
};

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options);

struct MicroBatch {
  std::vector<int64_t> examples;  // indices into the data set; the documents of `sequence`, in order
  comm::Sequence sequence;        // targets: labels shifted inside each document
  at::Tensor labels_T;            // int64, unshifted: what an objective counts
};

// The examples `indices` of `dataset` as one packed stream.
MicroBatch MakeMicroBatch(const std::vector<Example>& dataset, std::vector<int64_t> indices);

}  // namespace moonring::data

#endif  // MOONRING_DATA_PACKER_H_
