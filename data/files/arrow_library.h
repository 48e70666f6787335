// Loads libmoonring_arrow.so, which links Arrow's C++ library (60 MB), on first use. The library is
// searched for in lib/ next to the executable (//:dist), in the executable's runfiles, and, in a
// program that embeds Moonring, next to libmoonring.so. Arrow's own libraries come from runfiles,
// or for //:dist from Python's pyarrow.
#ifndef MOONRING_DATA_FILES_ARROW_LIBRARY_H_
#define MOONRING_DATA_FILES_ARROW_LIBRARY_H_

#include "absl/status/statusor.h"

namespace moonring::data {

inline constexpr char kArrowLibrary[] = "libmoonring_arrow.so";

// Returns the library's function `name`. FAILED_PRECONDITION if the library or one of its
// dependencies is missing.
absl::StatusOr<void*> ArrowFunction(const char* name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_LIBRARY_H_
