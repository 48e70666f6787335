// libmoonring_arrow.so, which links Arrow's C++ library (60 MB) and so is loaded where it is first
// needed: from lib/ beside the program (//:dist), from the program's runfiles, or from where
// libmoonring.so lies in a program that embeds Moonring. Arrow's own libraries come from runfiles,
// or in //:dist from Python's pyarrow.
#ifndef MOONRING_DATA_FILES_ARROW_LIBRARY_H_
#define MOONRING_DATA_FILES_ARROW_LIBRARY_H_

#include "absl/status/statusor.h"

namespace moonring::data {

inline constexpr char kArrowLibrary[] = "libmoonring_arrow.so";

// One of its functions by name. FAILED_PRECONDITION where the library, or one that it needs, is
// missing.
absl::StatusOr<void*> ArrowFunction(const char* name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_LIBRARY_H_
