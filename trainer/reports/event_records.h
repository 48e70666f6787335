#ifndef MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_
#define MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_

// Encodes the records of TensorBoard's event files. A file is
//   record ...     each: length (8 bytes), masked CRC-32C of the length, an Event, masked CRC-32C
//                  of the Event
//   masked(crc)  = rotate_right(crc, 15) + 0xa282ead8
//
// all little endian (tensorboard/compat/tensorflow_stub/io/tf_record.py). The first Event contains
// the format's version. Messages: tensorboard/compat/proto/{event,summary,tensor}.proto and
// tensorboard/plugins/hparams/plugin_data.proto.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// Time and step of an event.
struct EventTime {
  double seconds = 0.0;  // since 1970
  int64_t step = 0;
};

std::string VersionEvent(double seconds);
// Makes readers discard events of this folder from `step` on, because the run resumes before it.
std::string RestartEvent(EventTime at);
std::string ScalarsEvent(EventTime at, const std::vector<std::pair<std::string, double>>& scalars);
// A histogram with `buckets` buckets of equal width from the least value to the greatest.
std::string HistogramEvent(EventTime at, const std::string& tag, const std::vector<double>& values,
                           int buckets = 30);
// Markdown for the text plugin; the tag is "TAG/text_summary", as in SummaryWriter.add_text.
std::string TextEvent(EventTime at, const std::string& tag, const std::string& text);

// Hyperparameters for the HParams plugin: their names and the metrics that rate a run (experiment
// event), and their values (session start event).
using Hyperparameter = std::variant<bool, double, std::string>;
std::string ExperimentEvent(EventTime at, const std::map<std::string, Hyperparameter>& parameters,
                            const std::vector<std::string>& metrics);
std::string SessionStartEvent(EventTime at,
                              const std::map<std::string, Hyperparameter>& parameters);
std::string SessionEndEvent(EventTime at);  // the session ended successfully

// Encodes an Event as a record.
std::string Framed(absl::string_view event);

// The prefix of an event file up to the first record of a later step, or the first incomplete one.
absl::string_view UpToStep(absl::string_view file, int64_t step);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_EVENT_RECORDS_H_
