// Reads the fields of a message other than role and text: training marks, reasoning, tool calls.
// docs/data.md has the table of fields.
//
// `noted` collects notes, each at most once per row, that are reported with the number of such rows
// (ConvertedRow::noted). All functions fail with INVALID_ARGUMENT and name the field; the caller
// adds the message.
#ifndef MOONRING_DATA_FORMATS_MESSAGE_FIELDS_H_
#define MOONRING_DATA_FORMATS_MESSAGE_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/text/conversation.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// Adds `what` unless it is already in `noted`.
void NoteOnce(std::string what, std::vector<std::string>& noted);

// False for null and for empty values.
bool SaysSomething(const OrderedJson& value);

// The value without object members that are null, at any depth (nulls in lists stay). An Arrow
// table gives every object the members of all rows' objects, with null for the missing ones.
OrderedJson WithoutNulls(const OrderedJson& value, std::vector<std::string>& noted);

// Reads the training mark of a message: weight (OpenAI), loss (ms-swift), trainable, train,
// training (Axolotl), loss_weight (LLaMA-Factory 1.0) or loss_mask. 1 or true: the message is
// trained; 0 or false: it is not. Any other value, and contradictory marks, are errors.
absl::StatusOr<LearnMark> ReadMark(const OrderedJson& message);

// Reads reasoning_content, reasoning or thinking: a string, or a list of strings and of objects
// with a text. Fails if two of these fields differ.
absl::StatusOr<std::string> ReadThought(const OrderedJson& message);

// Reads tool_calls and OpenAI's older function_call as [{"name", "arguments"}, ..]; empty if there
// are none. Calls may be wrapped in {"type": "function", "function": ..}; calls and the list itself
// may be strings of JSON. Other members of a call are noted and ignored.
absl::StatusOr<OrderedJson> ReadCalls(const OrderedJson& message, std::vector<std::string>& noted);

// Notes the non-empty fields of a message that are not read: those that are neither in `read` nor
// read by ReadMark nor, in an answer, by ReadThought, ReadCalls or as its `refusal`. UNIMPLEMENTED
// for images, videos and audio.
absl::Status NoteOthers(const OrderedJson& message, absl::Span<const std::string> read, bool answer,
                        std::vector<std::string>& noted);

// Notes the non-empty columns of a row that are not in `read`, if their names have a meaning in
// other programs.
void NoteColumns(const OrderedJson& row, absl::Span<const std::string> read,
                 std::vector<std::string>& noted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGE_FIELDS_H_
