// Rows -> token ids, uncut: what an example is built of, and what there is to say of the row.
//
// pt: the text with the eos token's text after it (template llama3: <|end_of_text|>; before it the
// bos token's, where the tokenizer adds one and texts are not packed), encoded at once, so that
// special tokens in the text are parsed. Other stages: by the chat template.
#ifndef MOONRING_DATA_ROW_ENCODER_H_
#define MOONRING_DATA_ROW_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset_options.h"
#include "data/description/dataset_info.h"
#include "data/example.h"
#include "data/files/row.h"
#include "data/formats/converted_row.h"
#include "data/text/chat_template.h"
#include "data/text/conversation.h"

namespace moonring::data {

struct EncodedRow {
  std::string where;               // FILE:LINE (row N)
  std::string skipped;             // why it is left out; empty where it is not
  std::vector<std::string> noted;  // what DatasetReport::noted counts it under
  // supervised: its turns, or with one_turn {all before the answer, it}; pairs: {prompt, chosen};
  // prompts: {prompt, nothing};
  // feedback: {prompt, answer}, of a skipped row too where it has one (it is another row's
  // mismatched answer); pretraining: {nothing, text}
  std::vector<EncodedTurn> turns;
  std::vector<int32_t> rejected;    // pairs
  std::vector<Document> documents;  // of a row of token ids, in place of turns
  std::optional<bool> desirable;    // feedback
  std::string row;                  // prompts: its columns, as JSON
  int64_t whole_tokens = 0;         // of its longest document
};

// Thread-safe.
class RowEncoder {
 public:
  RowEncoder(const DatasetOptions& options, const ChatTemplate& chat_template)
      : options_(options), template_(chat_template) {}

  // Fails for a row that the format refuses, and for one longer than cutoff_len where overlong is
  // error.
  absl::StatusOr<EncodedRow> Encode(const Row& row, const DatasetDescription& description) const;

  // Of a row of token ids (data/token_ids.h). Where texts are joined they are a text, and have no
  // labels of their own.
  absl::StatusOr<EncodedRow> EncodeIds(const Row& row, std::optional<int64_t> vocabulary) const;

  // The same as Encode; a message begins with where the row is.
  absl::StatusOr<EncodedRow> EncodeNamed(const Row& row,
                                         const DatasetDescription& description) const;

 private:
  // Notes what becomes of the messages' thoughts, texts beside calls, and marks. A row whose marks
  // leave nothing to learn is skipped.
  void NoteMessages(const ConvertedRow& converted, EncodedRow& encoded) const;
  void NoteMarks(const ConvertedRow& converted, EncodedRow& encoded) const;
  void EncodeText(const ConvertedRow& converted, EncodedRow& encoded) const;
  absl::Status EncodeConversation(const ConvertedRow& converted, EncodedRow& encoded) const;
  absl::Status EncodePrompt(const ConvertedRow& converted, EncodedRow& encoded) const;
  absl::Status EncodeLastAnswer(const ConvertedRow& converted, EncodedRow& encoded) const;
  absl::Status EncodeAnswers(const ConvertedRow& converted, EncodedRow& encoded) const;
  absl::StatusOr<EncodedTurn> EncodeAnswer(const Conversation& conversation,
                                           const Message& answer) const;
  absl::Status CheckLength(EncodedRow& encoded) const;

  const DatasetOptions& options_;
  const ChatTemplate& template_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_ROW_ENCODER_H_
