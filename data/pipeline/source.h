// A stage of the data pipeline: hands out items one by one, and can say and take back where it
// stands.
//
//   Next()       the next item, nothing at the end (and at each call after it), or what is wrong
//                with the world.
//   SaveState()  a text from which LoadState, on a stage made with the same options, goes on so
//                that Next() gives the very items that would have come. Opaque to all but the stage
//                that wrote it.
//   LoadState()  refuses a state of another kind, or one that does not belong to these inputs; the
//                stage is then unchanged.
//
// After an error a stage may be asked again, but need not recover. One thread at a time.
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
