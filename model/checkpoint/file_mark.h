#ifndef MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_
#define MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_

// A fingerprint of a weight file that is much cheaper than reading all of it, to detect whether the
// file has changed.
//
//   sha1 of its size and of its bytes; for a file above 64 MiB, of the first 4 KiB of each MiB
//   instead: 1/256 of it
//
// If the file is replaced by a trained model or by another one, numbers change everywhere, and so
// does the fingerprint. A change of a few numbers in a large file may go undetected.

#include <string>

#include "absl/status/statusor.h"

namespace moonring::model {

// Returns the fingerprint. Fails if the file cannot be read (NOT_FOUND and so on); the message
// contains the path.
absl::StatusOr<std::string> MarkOfFile(const std::string& path);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_FILE_MARK_H_
