// Encoded rows, in their order -> examples and their report. The rules are LLaMA-Factory 0.9.5's,
// to the token:
//
//   sft   data/truncation.h; with packing or neat_packing the documents of each batch of
//         preprocessing_batch_size rows in rows (data/packed_rows.h)
//         with one_turn what stands before the last answer and that answer, cut as one turn
//   pt    the texts of each batch of preprocessing_batch_size rows joined and cut in blocks of
//         cutoff_len, the rest of each batch dropped (where the tokenizer adds a bos, it replaces
//         the first id of each block); without packing, each text cut to cutoff_len. Labels are the
//         ids, but for the pad id: where that is the eos too, no end of a text is learnt
//   dpo   prompt and answers cut as one turn whose response is the longer answer, so that both have
//         the same prompt
//   kto   as a turn. The mismatched document is the row's prompt and the answer of the row before
//         it in the batch (the batch's first row: of its last), cut as a turn of its own. Skipped
//         rows count as places of a batch; one that has no answer lends that of the row before it
//
// Two differences in kto: a desired row with an empty answer stays desired (LLaMA-Factory would
// make it undesired), and a row without an answer next to one that has (there LLaMA-Factory stops).
//   prompts  their last cutoff_len tokens, as TRL has it
//
// A row of token ids is cut to cutoff_len at its end, each document by itself;
// a prompt at its beginning.
//
// As with one preprocessing worker: several would each begin batches of their own.
#ifndef MOONRING_DATA_EXAMPLE_BUILDER_H_
#define MOONRING_DATA_EXAMPLE_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset_options.h"
#include "data/dataset_report.h"
#include "data/example.h"
#include "data/row_encoder.h"
#include "data/text/chat_template.h"
#include "data/truncation.h"

namespace moonring::data {

// What became of a row, where each example is one turn to answer.
struct RowUse {
  std::string where;                       // FILE:LINE (row N)
  std::string left_out;                    // why it gives no example; empty where it gives one
  int64_t prompt_cut = 0, answer_cut = 0;  // tokens that cutoff_len cost
};

struct PreparedDataset {
  std::vector<Example> examples;
  DatasetReport report;
  std::vector<int64_t> lengths;  // of examples that came with them; else empty
  std::vector<RowUse> uses;      // of every row, with DatasetOptions::one_turn; else empty
};

class ExampleBuilder {
 public:
  ExampleBuilder(const DatasetOptions& options, const ChatTemplate& chat_template);

  void Add(EncodedRow row);
  // Adds, unchanged, an example that was tokenized before (data/example_table.h).
  void AddPrepared(Example example, const std::string& where);

  // Adds to the report's `noted` what concerns all rows of a data set.
  void Note(CountedRows rows);

  // The examples of the rows added since the last call; the last of these rows are a batch, however
  // few. For a stream, which holds no more at a time.
  std::vector<Example> EndBatch();
  const DatasetReport& report() const { return prepared_.report; }
  const std::vector<RowUse>& uses() const { return prepared_.uses; }

  // Fails where no row gave an example, or cutoff_len leaves nothing to learn in any.
  absl::Status Check() const;
  absl::StatusOr<PreparedDataset> Finish() &&;

 private:
  void BuildBatch();
  void BuildBlocks();
  void BuildRows();
  void BuildFeedback();
  void Push(Example example, const EncodedRow& row);
  void PushGiven(EncodedRow& row);
  void Cut(Document& document) const;
  void PushPrompt(EncodedRow& row);
  void Keep(Example example, const std::string& where);
  Document TextDocument(std::vector<int32_t> ids) const;
  Document AnswerDocument(const EncodedTurn& turn, const std::vector<int32_t>& answer,
                          TurnLengths kept) const;
  // Counts a row that was cut, and whether anything worth the while is left of what it teaches.
  void CountCut(const EncodedRow& row, const std::vector<Document>& documents);
  void NoteOneKindOfTag();

  const DatasetOptions& options_;
  const ChatTemplate& template_;
  LearnOptions learn_;
  PreparedDataset prepared_;
  std::vector<EncodedRow> batch_;  // pretraining and feedback: the rows that are prepared together
  std::string first_example_;      // where it is
  bool anything_to_predict_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_BUILDER_H_
