// Converts examples to and from table rows, with the column names and types of LLaMA-Factory
// 0.9.5's processors.
//
//   pt        input_ids, attention_mask: labels equal the ids, except for the pad id
//   sft       input_ids, attention_mask, labels; packing and neat_packing add position_ids. The
//             mask of a neat_packing row numbers its texts from 1 and is 0 for padding; any other
//             mask is 1 throughout
//   rm, dpo   chosen_ and rejected_ input_ids, attention_mask, labels
//   kto       input_ids, attention_mask, labels, the same with the prefix kl_, and kto_tags
#ifndef MOONRING_DATA_EXAMPLE_TABLE_H_
#define MOONRING_DATA_EXAMPLE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/description/stage.h"
#include "data/example.h"
#include "data/files/arrow_sink.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// The columns of the stage's examples. `rows`: whether the examples are packed rows.
std::vector<ArrowField> ExampleFields(Stage stage, bool rows);

bool IsPackedRow(const Example& example);

// The column values of an example, in the order of ExampleFields.
class ExampleRow {
 public:
  ExampleRow(const Example& example, Stage stage);
  const std::vector<std::span<const int32_t>>& values() const { return values_; }

 private:
  void Add(std::vector<int32_t> list);
  void AddDocument(const Document& document, bool with_labels);

  std::vector<std::vector<int32_t>> lists_;
  std::vector<std::span<const int32_t>> values_;
};

// Reads an example from a table row. INVALID_ARGUMENT if the columns are those of another stage, or
// if a column is missing or its values are of the wrong type.
absl::StatusOr<Example> ReadExample(const OrderedJson& row, Stage stage, int32_t pad);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_TABLE_H_
