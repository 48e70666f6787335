#ifndef MOONRING_TRAINER_REPORTS_EVENT_FILE_H_
#define MOONRING_TRAINER_REPORTS_EVENT_FILE_H_

// An event file of a run, which TensorBoard can read while it grows:
//
//   FOLDER/events.out.tfevents.SECONDS.HOST.PID
//
// A resumed run writes a new file in the same folder. Events of later steps are cut off from the
// existing files, and the new file begins with an event that makes readers discard those they
// have already read, so that no step appears twice.
//
// The Add functions return the errors of LineAppender::Append: data that cannot be written is kept
// in memory and written with the next call.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/reports/event_records.h"

namespace moonring::trainer {

struct EventFileOptions {
  std::string folder;      // must exist
  int64_t first_step = 0;  // steps made before this process (resumed run)
  std::function<absl::Time()> clock = absl::Now;
};

class EventFile {
 public:
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(EventFileOptions options);

  absl::Status AddScalars(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  absl::Status AddHistogram(int64_t step, const std::string& tag,
                            const std::vector<double>& values);
  absl::Status AddText(int64_t step, const std::string& tag, const std::string& text);
  absl::Status AddHyperparameters(const std::map<std::string, Hyperparameter>& parameters,
                                  const std::vector<std::string>& metrics);
  absl::Status AddEnd(int64_t step);

  const std::string& path() const { return path_; }

 private:
  EventFile(EventFileOptions options, std::string path, LineAppender file)
      : options_(std::move(options)), path_(std::move(path)), file_(std::move(file)) {}
  EventTime At(int64_t step) const;
  absl::Status Add(const std::string& event) { return file_.AppendBytes(Framed(event)); }

  EventFileOptions options_;
  std::string path_;
  LineAppender file_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_EVENT_FILE_H_
