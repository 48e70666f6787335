// Encodes rows to token ids, without truncation, and collects the notes about each row.
//
// Stage pt: the row's text is followed by the text of the eos token (template llama3:
// <|end_of_text|>), and preceded by the text of the bos token if the tokenizer adds a bos and texts
// are not packed. All three are encoded as one string, so special tokens in the text are parsed.
// Other stages use the chat template.
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
  std::string skipped;             // why the row is skipped; empty if it is not
  std::vector<std::string> noted;  // entries of DatasetReport::noted for this row
  // The row's turns. supervised: those of the conversation, or with one_turn {everything before the
  // last answer, that answer}; pairs: {prompt, chosen}; prompts: {prompt, empty}; pretraining:
  // {empty, text}; feedback: {prompt, answer}, also for a skipped row with an answer (another row's
  // mismatched document may use it).
  std::vector<EncodedTurn> turns;
  std::vector<int32_t> rejected;    // pairs
  std::vector<Document> documents;  // for rows of token ids, in place of turns
  std::optional<bool> desirable;    // feedback
  std::string row;                  // prompts: the row's columns, as JSON
  int64_t whole_tokens = 0;         // length of the row's longest document
};

// Thread-safe.
class RowEncoder {
 public:
  RowEncoder(const DatasetOptions& options, const ChatTemplate& chat_template)
      : options_(options), template_(chat_template) {}

  // Fails for a row that its format rejects, and for one longer than cutoff_len with overlong =
  // error.
  absl::StatusOr<EncodedRow> Encode(const Row& row, const DatasetDescription& description) const;

  // Encodes a row of token ids (data/token_ids.h). If texts are packed (pretraining), the ids are
  // used as a text and their labels are ignored.
  absl::StatusOr<EncodedRow> EncodeIds(const Row& row, std::optional<int64_t> vocabulary) const;

  // Like Encode; error messages begin with the row's file, line and number.
  absl::StatusOr<EncodedRow> EncodeNamed(const Row& row,
                                         const DatasetDescription& description) const;

 private:
  // Note how reasoning texts, texts next to tool calls, and training marks of messages are treated.
  // A row is skipped if its marks leave nothing to train on.
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
