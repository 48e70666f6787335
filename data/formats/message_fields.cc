#include "data/formats/message_fields.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kMarks[] = {"weight",   "loss",        "trainable", "train",
                                        "training", "loss_weight", "loss_mask"};
constexpr absl::string_view kThoughts[] = {"reasoning_content", "reasoning", "thinking"};
constexpr absl::string_view kOfAnswers[] = {"tool_calls", "function_call", "refusal"};
constexpr absl::string_view kMedia[] = {"images", "image", "image_url", "videos",     "video",
                                        "audios", "audio", "video_url", "input_audio"};
// Columns to which other programs, or descriptions of other data sets, give a meaning. They are
// noted in the report if nothing reads them.
constexpr absl::string_view kTelling[] = {"tools", "functions", "system", "history", "images",
                                          "image", "videos",    "video",  "audios",  "audio"};

constexpr char kNulls[] =
    "with nulls in tool calls or tools, which are ignored (Arrow has them for fields of other "
    "rows)";
constexpr char kTexts[] = "with the arguments of a call as a string of JSON, which is parsed";

absl::Status Wrong(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", field, "' ", what));
}

template <typename Names>
bool IsIn(const Names& names, absl::string_view name) {
  return absl::c_linear_search(names, name);
}

bool DropNulls(OrderedJson& value) {
  bool any = false;
  if (value.is_object()) {
    OrderedJson kept = OrderedJson::object();
    for (auto& [key, member] : value.items()) {
      if (member.is_null()) {
        any = true;
        continue;
      }
      any = DropNulls(member) || any;
      kept[key] = std::move(member);
    }
    value = std::move(kept);
  } else if (value.is_array()) {
    for (OrderedJson& item : value) any = DropNulls(item) || any;
  }
  return any;
}

// The value of a training mark (whether a message is trained); nullopt for null and NaN.
absl::StatusOr<LearnMark> MarkOf(absl::string_view field, const OrderedJson& value) {
  if (value.is_null() || IsNan(value)) return LearnMark();
  if (value.is_boolean()) return LearnMark(value.get<bool>());
  if (value == 0 || value == 1) return LearnMark(value == 1);
  if (value.is_string()) {
    const std::string word = absl::AsciiStrToLower(value.get<std::string>());
    if (word == "true" || word == "1") return LearnMark(true);
    if (word == "false" || word == "0") return LearnMark(false);
  }
  return Wrong(field, absl::StrCat("is ", PythonJson(value).substr(0, 60),
                                   ": a message is trained (1, true) or it is not (0, false); "
                                   "write one of these"));
}

// The reasoning text of a value, or of one element of a list.
absl::StatusOr<std::string> ThoughtOf(absl::string_view field, const OrderedJson& value) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    for (const char* key : {"text", "value", "thinking", "reasoning"}) {
      if (const OrderedJson& part = FieldOrNull(value, key); part.is_string())
        return part.get<std::string>();
    }
  }
  if (!value.is_array())
    return Wrong(field, absl::StrCat("must be a thought's text, got ", value.type_name()));
  std::string text;
  for (const OrderedJson& part : value) {
    if (part.is_array()) return Wrong(field, "must be a thought's text, got a list of lists");
    ASSIGN_OR_RETURN(const std::string said, ThoughtOf(field, part));
    text += said;
  }
  return text;
}

// Returns `value`, or if that is a string of JSON, the parsed JSON value.
absl::StatusOr<OrderedJson> Bare(const OrderedJson& value, absl::string_view field) {
  if (!value.is_string()) return value;
  ASSIGN_OR_RETURN(OrderedJson said, ParseOrderedJson(value.get<std::string>()), "'", field,
                   "' is a text that must be JSON");
  return said;
}

void NoteMembers(const OrderedJson& object, absl::Span<const absl::string_view> read,
                 std::vector<std::string>& noted) {
  for (const auto& [key, value] : object.items()) {
    if (!IsIn(read, key) && SaysSomething(value))
      NoteOnce(absl::StrCat("with '", key, "' in a tool call, which is ignored"), noted);
  }
}

// Normalizes one call to {"name", "arguments"}.
absl::StatusOr<OrderedJson> CallOf(const OrderedJson& given, absl::string_view field,
                                   std::vector<std::string>& noted) {
  ASSIGN_OR_RETURN(const OrderedJson call, Bare(given, field));
  if (!call.is_object())
    return Wrong(field, absl::StrCat("must have calls (objects), got ", call.type_name()));
  const OrderedJson& type = FieldOrNull(call, "type");
  if (!type.is_null() && type != "function")
    return Wrong(field, absl::StrCat("has a call of the type ", PythonJson(type),
                                     "; calls of functions can be read"));
  const OrderedJson& wrapped = FieldOrNull(call, "function");
  if (wrapped.is_null() && !FieldOrNull(call, "name").is_string())
    return absl::InvalidArgumentError(absl::StrCat("each of '", field, "' must have a 'function'"));
  OrderedJson function = call;
  if (!wrapped.is_null()) {
    ASSIGN_OR_RETURN(function, Bare(wrapped, field));
    NoteMembers(call, {"type", "function"}, noted);
  }
  const OrderedJson& name = FieldOrNull(function, "name");
  if (!name.is_string()) return Wrong(field, "has a call without a 'name'");
  NoteMembers(function, {"type", "name", "arguments"}, noted);
  const OrderedJson& arguments = FieldOrNull(function, "arguments");
  if (arguments.is_string()) NoteOnce(kTexts, noted);
  return OrderedJson{{"name", name}, {"arguments", WithoutNulls(arguments, noted)}};
}

}  // namespace

void NoteOnce(std::string what, std::vector<std::string>& noted) {
  if (!absl::c_linear_search(noted, what)) noted.push_back(std::move(what));
}

bool SaysSomething(const OrderedJson& value) {
  if (value.is_null() || IsNan(value)) return false;
  return value.is_string() || value.is_structured() ? PythonTruth(value) : true;
}

OrderedJson WithoutNulls(const OrderedJson& value, std::vector<std::string>& noted) {
  OrderedJson kept = value;
  if (DropNulls(kept)) NoteOnce(kNulls, noted);
  return kept;
}

absl::StatusOr<LearnMark> ReadMark(const OrderedJson& message) {
  LearnMark mark;
  absl::string_view by;
  for (const absl::string_view field : kMarks) {
    ASSIGN_OR_RETURN(const LearnMark said,
                     MarkOf(field, FieldOrNull(message, std::string(field).c_str())));
    if (!said.has_value()) continue;
    if (mark.has_value() && mark != said)
      return Wrong(by, absl::StrCat("and '", field,
                                    "' contradict each other: whether the message is "
                                    "trained must be stated once"));
    mark = said;
    by = field;
  }
  return mark;
}

absl::StatusOr<std::string> ReadThought(const OrderedJson& message) {
  std::string thought;
  absl::string_view by;
  for (const absl::string_view field : kThoughts) {
    ASSIGN_OR_RETURN(std::string said,
                     ThoughtOf(field, FieldOrNull(message, std::string(field).c_str())));
    if (said.empty()) continue;
    if (!thought.empty() && thought != said)
      return Wrong(by, absl::StrCat("and '", field, "' are two thoughts: leave one of them out"));
    thought = std::move(said);
    by = field;
  }
  return thought;
}

absl::StatusOr<OrderedJson> ReadCalls(const OrderedJson& message, std::vector<std::string>& noted) {
  OrderedJson calls = OrderedJson::array();
  const OrderedJson &listed = FieldOrNull(message, "tool_calls"),
                    &one = FieldOrNull(message, "function_call");
  if (SaysSomething(listed)) {
    ASSIGN_OR_RETURN(OrderedJson given, Bare(listed, "tool_calls"));
    if (given.is_null()) given = OrderedJson::array();
    if (!given.is_array()) given = OrderedJson::array({std::move(given)});
    for (const OrderedJson& call : given) {
      ASSIGN_OR_RETURN(OrderedJson bare, CallOf(call, "tool_calls", noted));
      calls.push_back(std::move(bare));
    }
  }
  if (!SaysSomething(one)) return calls;
  if (!calls.empty()) {
    NoteOnce("with 'function_call' next to 'tool_calls' in a message, which is ignored", noted);
    return calls;
  }
  ASSIGN_OR_RETURN(OrderedJson bare, CallOf(one, "function_call", noted));
  calls.push_back(std::move(bare));
  return calls;
}

absl::Status NoteOthers(const OrderedJson& message, absl::Span<const std::string> read, bool answer,
                        std::vector<std::string>& noted) {
  for (const auto& [key, value] : message.items()) {
    if (absl::c_linear_search(read, key) || IsIn(kMarks, key) || !SaysSomething(value)) continue;
    if (answer && (IsIn(kThoughts, key) || IsIn(kOfAnswers, key))) continue;
    if (IsIn(kMedia, key))
      return absl::UnimplementedError(absl::StrCat("'", key,
                                                   "' has an image, a video or sound; models read "
                                                   "text alone here"));
    NoteOnce(absl::StrCat("with '", key, "' in a message, which is ignored"), noted);
  }
  return absl::OkStatus();
}

void NoteColumns(const OrderedJson& row, absl::Span<const std::string> read,
                 std::vector<std::string>& noted) {
  if (!row.is_object()) return;
  for (const auto& [key, value] : row.items()) {
    if (absl::c_linear_search(read, key) || !SaysSomething(value)) continue;
    if (!IsIn(kTelling, key) && !IsIn(kMarks, key) && !IsIn(kThoughts, key)) continue;
    NoteOnce(absl::StrCat("with the column '", key,
                          "', which the description's 'columns' do not name: it is ignored"),
             noted);
  }
}

}  // namespace moonring::data
