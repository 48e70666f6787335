#include "base/trace/trace_json.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/fnv1a.h"

namespace moonring::base {
namespace {

// Row numbers in the trace. A thread's row has the thread's number. The rows of concurrent
// transfers begin at kBeside, at a distance of kOfOneName for each row name, and those of the
// device at kDevice.
constexpr int kBeside = 1000, kOfOneName = 1000, kDevice = 9000;

// Nanoseconds as microseconds, with three decimals.
std::string Micro(int64_t ns) {
  return absl::StrFormat("%s%d.%03d", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// Writes row names, and events as lines.
class Writer {
 public:
  Writer(const TraceRecorder& recorder, int rank, const std::function<int64_t(int64_t)>& time)
      : recorder_(recorder), rank_(rank), time_(time) {
    Meta("process_name", 0, absl::StrCat("{\"name\":\"rank ", rank, "\"}"));
    Meta("process_sort_index", 0, absl::StrCat("{\"sort_index\":", rank, "}"));
  }

  void Row(int row, const std::string& name) {
    Meta("thread_name", row, absl::StrCat("{\"name\":", QuotedJson(name), "}"));
    Meta("thread_sort_index", row, absl::StrCat("{\"sort_index\":", row, "}"));
  }

  void Event(int row, const SpanEvent& event) {
    const int64_t begin = time_(event.begin), end = std::max(begin, time_(event.end));
    absl::StrAppend(&text_, "{\"ph\":\"X\",\"name\":", QuotedJson(event.kind->name),
                    ",\"cat\":", QuotedJson(event.kind->category), ",\"ts\":", Micro(begin),
                    ",\"dur\":", Micro(end - begin), Place(row), Args(event), "},\n");
    if (event.kind == &kSend || event.kind == &kReceive) Arrow(row, event, begin, end);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string Place(int row) const { return absl::StrCat(",\"pid\":", rank_, ",\"tid\":", row); }

  void Meta(absl::string_view what, int row, const std::string& args) {
    absl::StrAppend(&text_, "{\"ph\":\"M\",\"name\":\"", what, "\"", Place(row), ",\"args\":", args,
                    "},\n");
  }

  const std::string& Text(int32_t number) {
    auto& quoted = quoted_[number];
    if (quoted.empty()) quoted = QuotedJson(recorder_.text(number));
    return quoted;
  }

  std::string Args(const SpanEvent& event) {
    std::string args;
    const auto add = [&](const char* name, const auto& value) {
      absl::StrAppend(&args, args.empty() ? ",\"args\":{\"" : ",\"", name, "\":", value);
    };
    for (size_t i = 0; i < event.numbers.size(); ++i) {
      if (event.kind->numbers[i] != nullptr) add(event.kind->numbers[i], event.numbers[i]);
    }
    if (event.text >= 0) add(event.kind->text, Text(event.text));
    if (!args.empty()) args += "}";
    return args;
  }

  // An arrow from the begin of a send to the end of the matching receive; both have the same id.
  void Arrow(int row, const SpanEvent& event, int64_t begin, int64_t end) {
    const bool leaves = event.kind == &kSend;
    const auto peer = event.numbers[0], message = event.numbers[2];
    const std::string which = absl::StrCat(recorder_.text(event.text), "|", leaves ? rank_ : peer,
                                           "|", leaves ? peer : rank_, "|", message);
    const uint64_t id = Fnv1a(which);  // the same on both ranks
    absl::StrAppend(&text_, "{\"ph\":\"", leaves ? "s" : "f",
                    "\",\"name\":\"message\",\"cat\":\"message\",\"id\":", id >> 16,
                    leaves ? "" : ",\"bp\":\"e\"",
                    ",\"ts\":", Micro(leaves ? begin : std::max(begin, end - 1)), Place(row),
                    "},\n");
  }

  const TraceRecorder& recorder_;
  const int rank_;
  const std::function<int64_t(int64_t)>& time_;
  std::map<int32_t, std::string> quoted_;
  std::string text_;
};

// Sorts spans so that an outer span comes before those within it.
void Sort(std::vector<SpanEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const SpanEvent& a, const SpanEvent& b) {
    return std::tuple(a.begin, -a.end) < std::tuple(b.begin, -b.end);
  });
}

// Distributes overlapping events over rows so that no row has an overlap.
void WriteBeside(Writer& writer, const std::string& name, int first_row,
                 std::vector<SpanEvent> events) {
  Sort(events);
  std::vector<int64_t> ends;
  for (const SpanEvent& event : events) {
    const auto free =
        std::find_if(ends.begin(), ends.end(), [&](int64_t end) { return end <= event.begin; });
    const int row = static_cast<int>(free - ends.begin());
    if (free == ends.end()) {
      ends.push_back(event.end);
      writer.Row(first_row + row, absl::StrCat(name, " ", row + 1));
    } else {
      *free = event.end;
    }
    writer.Event(first_row + row, event);
  }
}

}  // namespace

std::string QuotedJson(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string TraceEventsJson(const TraceRecorder& recorder, int rank,
                            const std::function<int64_t(int64_t)>& time) {
  Writer writer(recorder, rank, time);
  std::map<std::string, std::vector<SpanEvent>> beside;
  for (auto& [number, events] : recorder.Events()) {
    std::vector<SpanEvent> own;
    for (const SpanEvent& event : events)
      (event.kind->beside == nullptr ? own : beside[event.kind->beside]).push_back(event);
    if (number < 0) {
      WriteBeside(writer, "GPU", kDevice, std::move(own));
      continue;
    }
    Sort(own);
    writer.Row(number, number == 0 ? "compute" : absl::StrCat("compute, thread ", number + 1));
    for (const SpanEvent& event : own) writer.Event(number, event);
  }
  int row = kBeside;
  for (auto& [name, events] : beside) {
    WriteBeside(writer, name, row, std::move(events));
    row += kOfOneName;
  }
  return writer.Take();
}

}  // namespace moonring::base
