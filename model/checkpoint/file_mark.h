#ifndef MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_
#define MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_

// Whether a file of weights is the one that it was: by a mark that costs a small part of a reading.
//
//   sha1 of its size and of its bytes; where it has more than 64 MiB, of the first 4 KiB of each
//   MiB instead: 1/256 of it
//
// A model that was trained on, or another model, has other numbers everywhere and so another mark.
// A change of a few numbers in a large file may go unseen.

#include <string>

#include "absl/status/statusor.h"

namespace moonring::model {

// NOT_FOUND and the like, naming the path.
absl::StatusOr<std::string> MarkOfFile(const std::string& path);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_
