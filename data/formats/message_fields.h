// What a message may say beside its role and its text, field by field. docs/data.md has the table
// of them.
//
// `noted` gets, once a row, what is told of such rows with their count (ConvertedRow::noted). All
// fail with INVALID_ARGUMENT, naming the field; the caller adds the message.
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

// Adds `what`, where it is not there.
void NoteOnce(std::string what, std::vector<std::string>& noted);

// Whether a field says something: null and what is empty do not.
bool SaysSomething(const OrderedJson& value);

// The value without object members that are null, at any depth (nulls in lists stay): an Arrow
// table gives each object the members of all rows' objects, null where the row had none.
OrderedJson WithoutNulls(const OrderedJson& value, std::vector<std::string>& noted);

// weight (OpenAI), loss (ms-swift), trainable, train, training (Axolotl), loss_weight
// (LLaMA-Factory 1.0), loss_mask: 1 or true is learnt, 0 or false is not. Fails for any other
// value, and where two are at odds.
absl::StatusOr<LearnMark> ReadMark(const OrderedJson& message);

// reasoning_content, reasoning or thinking: a text, or a list of texts and parts that have one.
// Fails where two differ.
absl::StatusOr<std::string> ReadThought(const OrderedJson& message);

// tool_calls and OpenAI's older function_call as [{"name", "arguments"}, ..], empty where there are
// none. Calls may be wrapped in {"type": "function", "function": ..} or not, and may be JSON texts,
// as may the list. Other members of a call are noted and left out.
absl::StatusOr<OrderedJson> ReadCalls(const OrderedJson& message, std::vector<std::string>& noted);

// Notes the message's fields that are not empty and are not read: those neither in `read` nor read
// by ReadMark nor, for an answer, by ReadThought, ReadCalls or as its `refusal`. UNIMPLEMENTED for
// images, videos and sound.
absl::Status NoteOthers(const OrderedJson& message, absl::Span<const std::string> read, bool answer,
                        std::vector<std::string>& noted);

// The same of a row's own columns, for those whose names mean something to other programs.
void NoteColumns(const OrderedJson& row, absl::Span<const std::string> read,
                 std::vector<std::string>& noted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGE_FIELDS_H_
