// Assigns a step's examples to data-parallel (dp) ranks and packs them into micro-batches.
//
// The documents of an example stay together, so its length is their sum: the chosen and the
// rejected answer of a pair are adjacent in one micro-batch. KTO's mismatched documents are packed
// separately by the same rule, so a rank may have mismatched documents of another rank's examples.
//
// Examples are assigned to dp ranks in order of descending cost, each to the rank with the lowest
// total cost so far. On a rank, they are packed into micro-batches of at most micro_batch_tokens
// tokens, the longest first, each into the first micro-batch with room. A longer example gets a
// micro-batch of its own. Ties go to the earlier example and the lower rank, so the result depends
// only on the lengths and the options. The degree of sequence parallelism and the machine have no
// influence. Inside a micro-batch, examples are in the step's order; micro-batches are ordered by
// their first example.
//
// The cost of n tokens is n + n^2 / 16384. The second term is the area of causal attention, which
// at a hidden size of about 2700 and 16384 tokens costs as much as the rest of a decoder block. The
// cost affects only the balance over dp ranks, not the result of training.
//
// Ranks may have different numbers of micro-batches, and none if the step has fewer examples than
// ranks. Cost: O(k log k + k x micro-batches) for k examples.
//
// share_prefixes: a family is a group of examples with a common beginning (StepExamples::families).
// The trained documents of a family, and the two documents of a pair, share their common first
// tokens that have no labels (prefixes.h). A micro-batch contains these p tokens once, as a
// separate document that the other documents attend to (their parent, comm/sequence.h). The rules
// above then apply to families instead of examples: a family with documents of L_1 .. L_n tokens
// has the length p + sum (L_i - p) and stays together. A family that is longer than a micro-batch
// is split between examples, in order, into units that are as long as possible; each unit has its
// own copy of the prefix. A family that is longer than a dp rank's share of the step is split too,
// if that reduces the highest cost of a dp rank. With share_prefixes, the packing therefore depends
// on ids and labels as well.
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

// [dp rank][micro-batch]: indices in `lengths`
using Packing = std::vector<std::vector<std::vector<int64_t>>>;

struct PackOptions {
  int64_t dp = 1;
  int64_t micro_batch_tokens = 0;
  bool share_prefixes = false;
};

Packing PackStep(absl::Span<const int64_t> lengths, const PackOptions& options);

// Packs a step's trained documents; if prefixes are shared, whole families.
Packing PackExamples(const StepExamples& step, const PackOptions& options);

// Assigns given micro-batches (lists of indices in `lengths`; empty lists are skipped) to dp ranks
// by the rule for examples: in order of descending cost, each to the rank with the lowest cost so
// far.
Packing DealGroups(std::vector<std::vector<int64_t>> groups, absl::Span<const int64_t> lengths,
                   int64_t dp);

struct MicroBatch {
  std::vector<int64_t>
      examples;  // indices into the data set; `sequence` has their documents, in order
  std::vector<int64_t> places;  // indices of the same examples in the step, from 0
  // number of documents per example (2 for pairs: chosen, rejected, chosen, rejected, ...), without
  // shared prefixes
  std::vector<int64_t> documents;
  std::vector<bool> desirable;  // kto: one per example; otherwise empty
  comm::Sequence sequence;      // targets_T: labels shifted inside each document; identity_T is set
  at::Tensor labels_T;          // int64, unshifted: labels counted by objectives
};

// Which documents of its examples a micro-batch contains.
enum class Part { kTrained, kMismatched };

// Concatenates the documents of the step's examples at the indices `places` to one micro-batch. The
// identity of a token (the key for dropout's random numbers, comm/sequence.h) is the example's
// index * 2^32 + Example::first_identity of its document + its position in the document, whatever
// the packing. A shared prefix is placed before the first document that has it, with that
// document's identities, positions and labels (all of them -100).
MicroBatch MakeMicroBatch(const StepExamples& step, std::vector<int64_t> places,
                          Part part = Part::kTrained, bool share_prefixes = false);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_PACKER_H_
