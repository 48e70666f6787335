#include "trainer/reports/event_records.h"

#include <algorithm>
#include <boost/crc.hpp>

#include "trainer/reports/wire_format.h"

namespace moonring::trainer {
namespace {

// Protobuf field numbers, by message.
namespace event {
enum { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
}
namespace summary {
enum { kValue = 1 };
}
namespace value {
enum { kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9 };
}
namespace hparams {  // HParamsPluginData
enum { kExperiment = 2, kSessionStart = 3, kSessionEnd = 4 };
}

WireMessage EventAt(EventTime at) {
  WireMessage message;
  message.Double(event::kWallTime, at.seconds);
  if (at.step != 0) message.Integer(event::kStep, at.step);
  return message;
}

std::string WithSummary(EventTime at, const WireMessage& message) {
  return EventAt(at).Message(event::kSummary, message).bytes();
}

// Makes a SummaryMetadata message: the plugin's name and its data.
WireMessage OfPlugin(absl::string_view name, const WireMessage& content) {
  WireMessage plugin;
  plugin.Bytes(1, name);
  if (!content.bytes().empty()) plugin.Message(2, content);
  return WireMessage().Message(1, plugin);
}

std::string HparamsEvent(EventTime at, absl::string_view tag, int field,
                         const WireMessage& content) {
  WireMessage one;
  one.Bytes(value::kTag, tag)
      .Message(value::kMetadata, OfPlugin("hparams", WireMessage().Message(field, content)));
  return WithSummary(at, WireMessage().Message(summary::kValue, one));
}

// Makes a message google.protobuf.Value from a hyperparameter.
WireMessage ValueOf(const Hyperparameter& parameter) {
  WireMessage message;
  if (const bool* flag = std::get_if<bool>(&parameter)) return message.Integer(4, *flag);
  if (const double* number = std::get_if<double>(&parameter)) return message.Double(2, *number);
  return message.Bytes(3, std::get<std::string>(parameter));
}

// The value of the enum hparams.DataType for a hyperparameter's type.
int64_t TypeOf(const Hyperparameter& parameter) {
  if (std::holds_alternative<bool>(parameter)) return 2;
  return std::holds_alternative<double>(parameter) ? 3 : 1;
}

std::string Little(uint64_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string MaskedSum(absl::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;  // CRC-32C
  sum.process_bytes(bytes.data(), bytes.size());
  const auto crc = static_cast<uint32_t>(sum.checksum());
  return Little(static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8U), 4);
}

}  // namespace

std::string VersionEvent(double seconds) {
  return EventAt({.seconds = seconds}).Bytes(event::kFileVersion, "brain.Event:2").bytes();
}

std::string RestartEvent(EventTime at) {
  return EventAt(at).Message(event::kSessionLog, WireMessage().Integer(1, 1)).bytes();  // START
}

std::string ScalarsEvent(EventTime at, const std::vector<std::pair<std::string, double>>& scalars) {
  WireMessage all;
  for (const auto& [tag, number] : scalars) {
    WireMessage one;
    one.Bytes(value::kTag, tag).Float(value::kSimpleValue, static_cast<float>(number));
    all.Message(summary::kValue, one);
  }
  return WithSummary(at, all);
}

std::string HistogramEvent(EventTime at, const std::string& tag, const std::vector<double>& values,
                           int buckets) {
  double least = 0.0, greatest = 0.0, sum = 0.0, squares = 0.0;
  if (!values.empty()) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    least = *low, greatest = *high;
  }
  const int count = greatest > least ? buckets : 1;
  const double width = (greatest - least) / count;
  std::vector<double> limits(count), counts(count, 0.0);
  for (int i = 0; i < count; ++i) limits[i] = i + 1 < count ? least + width * (i + 1) : greatest;
  for (const double each : values) {
    sum += each;
    squares += each * each;
    const auto at_least = std::lower_bound(limits.begin(), limits.end(), each);
    counts[std::min<int64_t>(at_least - limits.begin(), count - 1)] += 1.0;
  }
  WireMessage histogram, one;
  const double totals[] = {least, greatest, static_cast<double>(values.size()), sum, squares};
  for (int field = 1; field <= 5; ++field) {
    if (totals[field - 1] != 0.0) histogram.Double(field, totals[field - 1]);
  }
  histogram.Doubles(6, limits).Doubles(7, counts);
  one.Bytes(value::kTag, tag).Message(value::kHistogram, histogram);
  return WithSummary(at, WireMessage().Message(summary::kValue, one));
}

std::string TextEvent(EventTime at, const std::string& tag, const std::string& text) {
  WireMessage tensor, one;
  tensor
      .Integer(1, 7)  // DT_STRING
      .Message(2, WireMessage().Message(2, WireMessage().Integer(1, 1)))
      .Bytes(8, text);
  one.Bytes(value::kTag, tag + "/text_summary")
      .Message(value::kTensor, tensor)
      .Message(value::kMetadata, OfPlugin("text", {}));
  return WithSummary(at, WireMessage().Message(summary::kValue, one));
}

std::string ExperimentEvent(EventTime at, const std::map<std::string, Hyperparameter>& parameters,
                            const std::vector<std::string>& metrics) {
  WireMessage experiment;
  experiment.Double(3, at.seconds);
  for (const auto& [name, parameter] : parameters)
    experiment.Message(4, WireMessage().Bytes(1, name).Integer(4, TypeOf(parameter)));
  for (const std::string& tag : metrics)
    experiment.Message(5, WireMessage().Message(1, WireMessage().Bytes(2, tag)));
  return HparamsEvent(at, "_hparams_/experiment", hparams::kExperiment, experiment);
}

std::string SessionStartEvent(EventTime at,
                              const std::map<std::string, Hyperparameter>& parameters) {
  WireMessage start;
  for (const auto& [name, parameter] : parameters)
    start.Message(1, WireMessage().Bytes(1, name).Message(2, ValueOf(parameter)));
  start.Double(5, at.seconds);
  return HparamsEvent(at, "_hparams_/session_start_info", hparams::kSessionStart, start);
}

std::string SessionEndEvent(EventTime at) {
  WireMessage end;
  end.Integer(1, 1).Double(2, at.seconds);  // STATUS_SUCCESS
  return HparamsEvent(at, "_hparams_/session_end_info", hparams::kSessionEnd, end);
}

std::string Framed(absl::string_view event) {
  const std::string length = Little(event.size(), 8);
  return length + MaskedSum(length) + std::string(event) + MaskedSum(event);
}

absl::string_view UpToStep(absl::string_view file, int64_t step) {
  constexpr size_t kBefore = 12, kBehind = 4;
  absl::string_view left = file;
  while (left.size() >= kBefore + kBehind) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(left[i]);
    if (length > left.size() - kBefore - kBehind) break;
    const absl::string_view event = left.substr(kBefore, length);
    if (left.substr(kBefore + length, kBehind) != MaskedSum(event)) break;
    const auto at = FindInteger(event, event::kStep);
    if (!at.has_value() || *at > step) break;
    left.remove_prefix(kBefore + length + kBehind);
  }
  return file.substr(0, file.size() - left.size());
}

}  // namespace moonring::trainer
