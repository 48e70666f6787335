// Builds examples and their report from encoded rows, in row order. The results are those of
// LLaMA-Factory 0.9.5, token for token:
//
//   sft      truncated as in data/truncation.h. With packing or neat_packing, the documents of each
//            batch of preprocessing_batch_size rows are packed into rows (data/packed_rows.h). With
//            one_turn, everything before the last answer and that answer are truncated as one turn
//   pt       the texts of each batch of preprocessing_batch_size rows are concatenated and cut into
//            blocks of cutoff_len; the remainder of each batch is dropped. If the tokenizer adds a
//            bos, it replaces the first id of each block. Without packing, each text is truncated
//            to cutoff_len. Labels equal the ids, except for the pad id: if pad and eos are the
//            same token, the end of a text is not trained
//   dpo      prompt and answers are truncated as one turn whose response is the longer answer, so
//            that both documents have the same prompt
//   kto      truncated as one turn. The mismatched document is the row's prompt with the answer of
//            the previous row of the batch (for the first row: the last one), truncated separately.
//            A skipped row counts as a row of the batch; if it has no answer, the answer of the row
//            before it is used
//   prompts  the last cutoff_len tokens, as in TRL
//
// Differences from LLaMA-Factory in kto: a desirable row with an empty answer stays desirable
// (LLaMA-Factory makes it undesirable), and a batch may contain rows without an answer
// (LLaMA-Factory fails).
//
// Rows of token ids are truncated to cutoff_len at their end, each document separately; prompts at
// their beginning.
//
// Batches are those of LLaMA-Factory with one preprocessing worker; with several, each worker would
// begin its own batches.
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

// The outcome of a row when each example is one turn (one_turn).
struct RowUse {
  std::string where;                       // FILE:LINE (row N)
  std::string left_out;                    // why the row was skipped; empty if it was not
  int64_t prompt_cut = 0, answer_cut = 0;  // tokens removed by cutoff_len
};

struct PreparedDataset {
  std::vector<Example> examples;
  DatasetReport report;
  std::vector<int64_t> lengths;  // values of the length column; empty if there is none
  std::vector<RowUse> uses;      // one per row, with DatasetOptions::one_turn; otherwise empty
};

class ExampleBuilder {
 public:
  ExampleBuilder(const DatasetOptions& options, const ChatTemplate& chat_template);

  void Add(EncodedRow row);
  // Adds, unchanged, an example that was tokenized before (data/example_table.h).
  void AddPrepared(Example example, const std::string& where);

  // Adds an entry to the report's `noted` that concerns all rows of a data set.
  void Note(CountedRows rows);

  // Returns the examples of the rows added since the last call. The last batch may be smaller than
  // preprocessing_batch_size. Used for streams, which keep only one batch in memory.
  std::vector<Example> EndBatch();
  const DatasetReport& report() const { return prepared_.report; }
  const std::vector<RowUse>& uses() const { return prepared_.uses; }

  // Fails if no row produced an example, or if cutoff_len leaves no label in any example.
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
  // Counts a truncated row, and whether it lost nearly all of its labels (`starved`).
  void CountCut(const EncodedRow& row, const std::vector<Document>& documents);
  void NoteOneKindOfTag();

  const DatasetOptions& options_;
  const ChatTemplate& template_;
  LearnOptions learn_;
  PreparedDataset prepared_;
  std::vector<EncodedRow> batch_;  // rows not yet processed (BuildBatch)
  std::string first_example_;      // FILE:LINE of the first example's row
  bool anything_to_predict_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_BUILDER_H_
