// Writes training examples as JSON lines, one example per line, in order:
//
//   pt, sft   {"input_ids": [1, 4093, 198], "labels": [-100, -100, 198]}
//             with neat_packing also "position_ids": [0, 1, 0]
//   rm, dpo   {"chosen_input_ids": [..], "chosen_labels": [..], "rejected_input_ids": [..],
//             "rejected_labels": [..]}
//   kto       {"input_ids": [..], "labels": [..], "kl_input_ids": [..], "kl_labels": [..],
//             "kto_tag": true}
//
// The output is byte for byte that of Python's json.dumps, so that files can be compared with those
// of other programs. The file is written completely or not at all (base/files/output_file.h). Fails
// if the folder cannot be written or the disk is full.
#ifndef MOONRING_DATA_PREPROCESS_WRITER_H_
#define MOONRING_DATA_PREPROCESS_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/example.h"

namespace moonring::data {

std::string PreprocessedLine(const Example& example);  // without the line feed

absl::Status WritePreprocessed(const std::string& path, absl::Span<const Example> examples);

}  // namespace moonring::data

#endif  // MOONRING_DATA_PREPROCESS_WRITER_H_
