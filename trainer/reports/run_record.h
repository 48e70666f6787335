#ifndef MOONRING_TRAINER_REPORTS_RUN_RECORD_H_
#define MOONRING_TRAINER_REPORTS_RUN_RECORD_H_

// run_state.json of a run: its state, the reason of its end, and its most important numbers
// (lua/moonring/report/run_state.lua has the fields).
//
// The file says why a run ended even if the disk is full: a version that cannot be written to a new
// file overwrites the old one in place, in the blocks of the disk that the old one has. If the
// process is killed, the state stays "running", and no process holds the folder's lock
// (checkpoint/folder_lock.h).

#include <string>

#include "absl/status/status.h"
#include "base/text/ordered_json.h"

namespace moonring::trainer {

class RunRecord {
 public:
  explicit RunRecord(std::string path) : path_(std::move(path)) {}

  // Replaces the contents by a JSON object. Its field "state" is "running" until the run's end.
  // Errors: INVALID_ARGUMENT if `json` is no object; those of writing a file.
  absl::Status Write(const std::string& json);

  // Sets the final state of a run that did not set it: the fields state, reason and ended. Does
  // nothing if there are no contents, or if their state is not "running".
  absl::Status End(const std::string& state, const std::string& reason);

 private:
  absl::Status Save();

  std::string path_;
  base::OrderedJson contents_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_RUN_RECORD_H_
