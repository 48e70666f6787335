// A step's examples -> which dp rank computes which, in which micro-batches.
//
// The documents of an example stay together, so its length is their sum: a pair's chosen and
// rejected answer are neighbours in one micro-batch. KTO's mismatched documents are packed by the
// same rule as a step of their own, so a rank need not have those of its examples.
//
// Examples go to dp ranks by cost, the dearest first, each to the rank that has least so far; on a
// rank they go into micro-batches of at most micro_batch_tokens tokens, the longest first, each
// into the first that has room. A longer example goes alone. Ties fall to the earlier example and
// the lower rank, so the result is a function of the lengths and the options alone: not of sp, nor
// of the machine. In a micro-batch examples stand in the step's order, and micro-batches in that of
// their first.
//
// The cost of n tokens is n + n^2 / 16384: the second part is causal attention's area, which at a
// hidden size around 2700 equals the rest of a decoder block at that length. Only the balance over
// dp ranks depends on it, no result.
//
// Ranks may get different numbers of micro-batches, and none where the step has fewer examples than
// ranks. Cost: O(k log k + k x micro-batches) for k examples.
//
// share_prefixes: the trained documents of a family (step_examples.h; a pair's two are one already)
// share what they begin with and do not learn (prefixes.h): p tokens, which a micro-batch then has
// once, as a document before those that go on from it (comm/sequence.h). Families take the places
// of examples above: one of documents of L_1 .. L_n tokens is p + sum (L_i - p) long, and stays
// together. One that is longer than a micro-batch is split between examples, in their order, each
// part as long as fits: a part has the prefix again. So is one that is longer than a dp rank's
// share of the step, where the rank that has most to do then has less. Which examples are in which
// micro-batch, on which rank, then depends on their ids and labels too.
#ifndef MOONRING_DATA_STEPS_PACKER_H_
#define MOONRING_DATA_STEPS_PACKER_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "comm/sequence.h"
#include "data/example.h"
#include "data/steps/step_examples.h"

namespace moonring::data {

using Packing = std::vector<std::vector<std::vector<int64_t>>>;  // [dp rank][micro-batch] -> places
                                                                 // in `lengths`

struct PackOptions {
  int64_t dp = 1;
  int64_t micro_batch_tokens = 0;
  bool share_prefixes = false;
};

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options);

// The same of a step's trained documents, and of families where prefixes are shared.
Packing PackExamples(const StepExamples& step, const PackOptions& options);

// Micro-batches that someone else has formed (places in `lengths`; empty ones are left out), dealt
// to dp ranks by the same rule: the dearest first, each to the rank that has least so far.
Packing DealGroups(std::vector<std::vector<int64_t>> groups, absl::Span<const int64_t> lengths,
                   int64_t dp);

struct MicroBatch {
  std::vector<int64_t>
      examples;  // indices into the data set; their documents are those of `sequence`, in order
  std::vector<int64_t> places;  // the same examples' places in the step, from 0
  std::vector<int64_t>
      documents;  // of each example: how many. 2 for pairs: chosen, rejected, chosen, rejected, ...
                  // Those of `sequence` that are others' parents are not among them
  std::vector<bool> desirable;  // kto: of each example; else empty
  comm::Sequence sequence;      // targets: labels shifted inside each document; identity filled
  at::Tensor labels_T;          // int64, unshifted: what an objective counts
};

// Which of their documents a micro-batch takes of its examples.
enum class Part { kTrained, kMismatched };

// The examples of a step at `places` as one packed stream. A token's identity is the example's
// index * 2^32 + that of its document in the example + its position in the document: the same
// wherever it is packed. A shared prefix stands before the first document that goes on from it, and
// has that one's identities, positions and labels, of which none counts.
MicroBatch MakeMicroBatch(const StepExamples& step, std::vector<int64_t> places,
                          Part part = Part::kTrained, bool share_prefixes = false);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_PACKER_H_
