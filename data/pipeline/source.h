// A stage of the data pipeline: an iterator whose position can be saved and restored.
//
//   Next()       the next item, nullopt at the end (also when called again), or an error.
//   SaveState()  an opaque string. After LoadState of it, on a stage with the same options, Next()
//                returns exactly the items that would have followed.
//   LoadState()  fails for a state of another kind of stage or of other inputs; the stage is then
//                unchanged.
//
// After an error, a stage may be unusable. Not thread-safe.
#ifndef MOONRING_DATA_PIPELINE_SOURCE_H_
#define MOONRING_DATA_PIPELINE_SOURCE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

template <class T>
class Source {
 public:
  virtual ~Source() = default;

  virtual absl::StatusOr<std::optional<T>> Next() = 0;
  virtual std::string SaveState() const = 0;
  virtual absl::Status LoadState(absl::string_view state) = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_PIPELINE_SOURCE_H_
