// A training example: one output line of `preprocess`. Its documents, by stage:
//
//   pt, sft   one document; with packing, a row of several texts that attend to each other; with
//             neat_packing, a row of several documents
//   rm, dpo   {chosen, rejected}: two answers to one prompt
//   kto       {answer, mismatched}: a desirable or undesirable answer, and the same prompt with
//             another row's answer. The mismatched document is run without gradients, for the KL
//             term
//   grpo etc. one prompt without labels, and the columns of its data set row
#ifndef MOONRING_DATA_EXAMPLE_H_
#define MOONRING_DATA_EXAMPLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// Label of a token that is not in the loss; equals comm::kIgnore.
inline constexpr int32_t kNotLearnt = -100;

// Token ids and labels, of equal lengths. Labels are unshifted: labels[t] is for ids[t], which is
// predicted at position t - 1.
struct Document {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<int32_t> positions;  // empty: 0, 1, ..

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

// Padding at the end of a neat_packing row, as LLaMA-Factory adds it. `preprocess` writes it;
// forward passes ignore it.
struct RowPadding {
  int64_t count = 0;
  int32_t id = 0;
};

struct Example {
  std::vector<Document> documents;
  std::optional<bool> desirable;      // kto only
  std::optional<RowPadding> padding;  // neat_packing only
  std::string row;                    // prompts only: all columns of the data set's row, as JSON

  // The number that identifies a document's first token in the example, whatever the packing; the
  // key for dropout's random numbers (comm/sequence.h: identity_T). It is below 2^32: in a packed
  // row the token's offset in the row, otherwise 2^31 x the document's index.
  int64_t first_identity(int64_t document) const {
    if (!padding.has_value()) return document << 31;
    int64_t place = 0;
    for (int64_t d = 0; d < document; ++d) place += documents[d].size();
    return place;
  }

  // The number of documents in the training forward pass: all but kto's mismatched document.
  int64_t trained_documents() const {
    return desirable.has_value() ? 1 : static_cast<int64_t>(documents.size());
  }
  int64_t trained_tokens() const {
    int64_t tokens = 0;
    for (int64_t d = 0; d < trained_documents(); ++d) tokens += documents[d].size();
    return tokens;
  }
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_H_
