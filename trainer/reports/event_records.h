#ifndef MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_
#define MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_

// The records of TensorBoard's event files, as bytes. A file is
//
//   record ...     each: length (8 bytes), masked CRC-32C of these, an Event, masked CRC-32C of it
//   masked(crc)  = rotate_right(crc, 15) + 0xa282ead8
//
// all little endian (tensorboard/compat/tensorflow_stub/io/tf_record.py). The first Event names the
// format's version. Messages: tensorboard/compat/proto/{event,summary,tensor}.proto and
// tensorboard/plugins/hparams/plugin_data.proto.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// When and at which step.
struct EventTime {
  double seconds = 0.0;  // since 1970
  int64_t step = 0;
};

std::string VersionEvent(double seconds);
// What readers have seen of this folder from `step` on does not count: a run goes on before it.
std::string RestartEvent(EventTime at);
std::string ScalarsEvent(EventTime at, const std::vector<std::pair<std::string, double>>& scalars);
// In `buckets` of the same width from the least value to the greatest.
std::string HistogramEvent(EventTime at, const std::string& tag, const std::vector<double>& values,
                           int buckets = 30);
// Markdown, as the text plugin shows it: "TAG/text_summary", as SummaryWriter.add_text names it.
std::string TextEvent(EventTime at, const std::string& tag, const std::string& text);

// A run's hyper-parameters for the HParams plugin: which there are and which metrics tell how good
// the run is (an experiment), and their values (the session's start).
using Hyperparameter = std::variant<bool, double, std::string>;
std::string ExperimentEvent(EventTime at, const std::map<std::string, Hyperparameter>& parameters,
                            const std::vector<std::string>& metrics);
std::string SessionStartEvent(EventTime at,
                              const std::map<std::string, Hyperparameter>& parameters);
std::string SessionEndEvent(EventTime at);  // it ended well

// An Event as a record.
std::string Framed(absl::string_view event);

// The beginning of an event file up to the first record of a later step, or one that is not whole.
absl::string_view UpToStep(absl::string_view file, int64_t step);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_
