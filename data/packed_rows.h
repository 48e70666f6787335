// Documents -> rows, as LLaMA-Factory 0.9.5 forms them for `packing` and `neat_packing` (stage
// sft). C is its cutoff_len, which packing lowers by 1.
//
//   While documents are left a row is begun, and takes the longest one that fits into what is left
//   of its C tokens, until none does; of those of one length the last. Then it is filled up to
//   C + 1 tokens with the pad id (so with one pad at least), which is never learnt and whose
//   position is 0.
//
//   packing        a row is one document, pads included: its texts see all that stands before them,
//                  and positions restart at 0 with each text
//   neat_packing   a row's texts are documents of their own; its pads are none
//
// A text's last token is trained to predict the next text's first one where that is learnt
// (train_on_prompt) in `packing` alone: LLaMA-Factory does so in both.
#ifndef MOONRING_DATA_PACKED_ROWS_H_
#define MOONRING_DATA_PACKED_ROWS_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

struct RowOptions {
  int64_t capacity = 0;  // C; no document is longer
  int32_t pad = 0;
  bool neat = false;
};

// In the order in which the rows are begun. Cost: O(n log n) and, for what is taken out of the
// middle, O(n) a document.
std::vector<Example> PackRows(std::vector<Document> documents, const RowOptions& options);

// A row's texts and pads as one document, whose positions restart at 0 with each text and are 0 in
// the pads.
Document JoinedRow(const std::vector<Document>& texts, const RowPadding& padding);

}  // namespace moonring::data

#endif  // MOONRING_DATA_PACKED_ROWS_H_
