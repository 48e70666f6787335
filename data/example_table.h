// Examples as rows of columns, under the names and types that LLaMA-Factory 0.9.5's processors give
// them, and back.
//
//   pt        input_ids, attention_mask: labels are made of the ids, none where an id is the pad
//   sft       input_ids, attention_mask, labels; rows of packing and neat_packing have position_ids
//             besides. The mask of a neat row numbers its texts from 1, and is 0 in its pads; any
//             other mask is 1 throughout
//   rm, dpo   chosen_ and rejected_ input_ids, attention_mask, labels
//   kto       input_ids, attention_mask, labels, the same under kl_, kto_tags
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

// The columns of examples of that stage; `rows`: they are rows of packing.
std::vector<ArrowField> ExampleFields(Stage stage, bool rows);

bool IsPackedRow(const Example& example);

// An example's values by ExampleFields.
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

// INVALID_ARGUMENT where the columns are of another stage, or a column is missing or has no such
// values.
absl::StatusOr<Example> ReadExample(const OrderedJson& row, Stage stage, int32_t pad);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_TABLE_H_
