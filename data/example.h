// A training example: what `preprocess` writes on one line. Its documents, by what is trained:
//
//   pt, sft   the document; with packing a row of several texts that see each other, with
//             neat_packing a row of several documents
//   rm, dpo   {chosen, rejected}: two answers to one prompt
//   kto       {answer, mismatched}: an answer that is desired or not, and the same prompt with
//             another row's answer, which is run without gradients alone, for the KL term
//   grpo ..   the prompt, of which nothing is learnt, and the row that it is of
#ifndef MOONRING_DATA_EXAMPLE_H_
#define MOONRING_DATA_EXAMPLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// The label of a token that is not learnt; equals comm::kIgnore.
inline constexpr int32_t kNotLearnt = -100;

// Arrays of one length. labels are unshifted: labels[t] belongs to ids[t], and is learnt at the
// position before it.
struct Document {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<int32_t> positions;  // empty: 0, 1, ..

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

// What LLaMA-Factory fills a row of neat_packing up with: `preprocess` writes it, no forward pass
// takes it.
struct RowPadding {
  int64_t count = 0;
  int32_t id = 0;
};

struct Example {
  std::vector<Document> documents;
  std::optional<bool> desirable;      // kto only
  std::optional<RowPadding> padding;  // neat_packing only
  std::string row;                    // prompts only: all columns of the data set's row, as JSON

  // The identity of a document's first token in the example, below 2^32 (comm/sequence.h): in a row
  // its place, else 2^31 for the second one.
  int64_t first_identity(int64_t document) const {
    if (!padding.has_value()) return document << 31;
    int64_t place = 0;
    for (int64_t d = 0; d < document; ++d) place += documents[d].size();
    return place;
  }

  // Documents that one forward pass of the training takes together: all but kto's mismatched one.
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
