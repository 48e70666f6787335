// Writes training examples as JSON lines, one an example, in their order:
//
//   pt, sft   {"input_ids": [1, 4093, 198], "labels": [-100, -100, 198]}
//             with neat_packing also "position_ids": [0, 1, 0]
//   rm, dpo   {"chosen_input_ids": [..], "chosen_labels": [..], "rejected_input_ids": [..],
//             "rejected_labels": [..]}
//   kto       {"input_ids": [..], "labels": [..], "kl_input_ids": [..], "kl_labels": [..],
//             "kto_tag": true}
//
// to the byte what Python's json.dumps writes, so that files can be compared with a peer's. The
// file appears whole or not at all (base/files/output_file.h). Fails where the folder cannot be
// written or the disk is full.
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
