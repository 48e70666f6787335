// Packs documents into rows as LLaMA-Factory 0.9.5 does for `packing` and `neat_packing` (stage
// sft). The capacity C is LLaMA-Factory's cutoff_len, which it reduces by 1 when packing.
//
//   Greedy: a row repeatedly takes the longest remaining document that fits into the rest of its C
//   tokens (of equal lengths, the last one) until none fits; then the next row begins. A row is
//   padded to C + 1 tokens with the pad id, so it has at least one pad. Pads have position 0 and no
//   label.
//
//   packing        a row is one document, including the pads: texts attend to all earlier texts,
//                  and positions restart at 0 with each text
//   neat_packing   each text of a row is a separate document; pads are not part of any document
//
// If a text's first token has a label (train_on_prompt), the last token of the previous text is
// trained to predict it with `packing` only. LLaMA-Factory does this with neat_packing too.
#ifndef MOONRING_DATA_PACKED_ROWS_H_
#define MOONRING_DATA_PACKED_ROWS_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

struct RowOptions {
  int64_t capacity = 0;  // C; no document may be longer
  int32_t pad = 0;
  bool neat = false;
};

// Rows are returned in the order in which they are begun. Cost: O(n log n), plus O(n) per document
// that is removed from the middle of the list.
std::vector<Example> PackRows(std::vector<Document> documents, const RowOptions& options);

// Joins a row's texts and padding into one document. Positions restart at 0 with each text and are
// 0 for padding.
Document JoinedRow(const std::vector<Document>& texts, const RowPadding& padding);

}  // namespace moonring::data

#endif  // MOONRING_DATA_PACKED_ROWS_H_
