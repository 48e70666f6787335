#include "data/row_encoder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/formats/format_table.h"
#include "data/text/json/python_json.h"
#include "data/token_ids.h"

namespace moonring::data {
namespace {

constexpr char kEmptyAnswer[] = "with an empty answer";
constexpr absl::string_view kMarked = "with marks (weight, loss, trainable) of ";

bool IsEmpty(const Message& answer) { return answer.content.empty() && answer.thought.empty(); }

int64_t Size(const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); }

}  // namespace

absl::StatusOr<EncodedRow> RowEncoder::Encode(const Row& row,
                                              const DatasetDescription& description) const {
  ASSIGN_OR_RETURN(const ConvertedRow converted,
                   ConvertRow(row.value, description, options_.stage));
  EncodedRow encoded{.where = Where(row), .skipped = converted.skipped, .noted = converted.noted};
  NoteMessages(converted, encoded);
  const bool skipped = !encoded.skipped.empty();
  if (options_.stage == Stage::kFeedback && !converted.answers.empty()) {
    RETURN_IF_ERROR(EncodeAnswers(converted, encoded));
  } else if (skipped) {
    return encoded;
  } else if (options_.stage == Stage::kPretraining) {
    EncodeText(converted, encoded);
  } else if (options_.stage == Stage::kPrompts) {
    RETURN_IF_ERROR(EncodePrompt(converted, encoded));
    encoded.row = row.value.dump();
  } else if (options_.one_turn) {
    RETURN_IF_ERROR(EncodeLastAnswer(converted, encoded));
  } else if (options_.stage == Stage::kSupervised) {
    RETURN_IF_ERROR(EncodeConversation(converted, encoded));
  } else {
    RETURN_IF_ERROR(EncodeAnswers(converted, encoded));
  }
  if (skipped) return encoded;
  RETURN_IF_ERROR(CheckLength(encoded));
  return encoded;
}

absl::StatusOr<EncodedRow> RowEncoder::EncodeIds(const Row& row,
                                                 std::optional<int64_t> vocabulary) const {
  ASSIGN_OR_RETURN(Example example, ReadTokenIds(row.value, options_.stage, vocabulary));
  EncodedRow encoded{
      .where = Where(row), .desirable = example.desirable, .row = std::move(example.row)};
  for (const Document& document : example.documents)
    encoded.whole_tokens = std::max(encoded.whole_tokens, document.size());
  if (options_.joins_texts()) {
    if (row.value.contains("labels")) {
      return absl::InvalidArgumentError(
          "'labels' do not go with packing, which joins texts and cuts them: leave them out, or "
          "set packing: false");
    }
    encoded.turns = {{{}, std::move(example.documents[0].ids)}};
  } else {
    encoded.documents = std::move(example.documents);
  }
  RETURN_IF_ERROR(CheckLength(encoded));
  return encoded;
}

absl::StatusOr<EncodedRow> RowEncoder::EncodeNamed(const Row& row,
                                                   const DatasetDescription& description) const {
  try {
    ASSIGN_OR_RETURN(EncodedRow encoded, Encode(row, description), Where(row));
    return encoded;
  } catch (const std::runtime_error& error) {  // thrown by the tokenizer for texts it cannot encode
    return absl::InvalidArgumentError(absl::StrCat(Where(row), ": ", error.what()));
  }
}

void RowEncoder::NoteMessages(const ConvertedRow& converted, EncodedRow& encoded) const {
  NoteMarks(converted, encoded);
  bool thoughts = false, texts = false;
  for (const std::vector<Message>* messages :
       {&converted.conversation.messages, &converted.answers}) {
    for (const Message& message : *messages) {
      thoughts = thoughts || !absl::StripAsciiWhitespace(message.thought).empty();
      texts = texts || !message.said.empty();
    }
  }
  const TemplateSpec& spec = template_.spec();
  if (thoughts) {
    const std::string what = "with thoughts in reasoning_content, reasoning or thinking, ";
    encoded.noted.push_back(
        !spec.writes_thoughts
            ? absl::StrCat(what, "which are omitted: the template '", spec.name, "' has none")
        : spec.enable_thinking == false
            ? absl::StrCat(what, "which are omitted: enable_thinking is false")
            : absl::StrCat(what,
                           "which are written as the model's own chat template does "
                           "(LLaMA-Factory omits them)"));
  }
  if (!texts) return;
  encoded.noted.push_back(
      template_.writes_text_beside_calls()
          ? "with a text next to tool calls, which is trained before them (LLaMA-Factory omits it)"
          : absl::StrCat("with a text next to tool calls, which is omitted: the tool format '",
                         spec.tool_format, "' has none there, as the model's own template"));
}

void RowEncoder::NoteMarks(const ConvertedRow& converted, EncodedRow& encoded) const {
  if (!encoded.skipped.empty()) return;
  const std::vector<Message>& messages = converted.conversation.messages;
  bool answers = false, learnt = false, others = false, asked = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool answer = i % 2 == 1, last = i + 1 == messages.size();
    answers = answers || (answer && !messages[i].learnt());
    learnt = learnt || (answer && messages[i].learnt() && (last || !options_.mask_history));
    others = others || (!answer && messages[i].mark == true);
    asked = asked || messages[i].mark == true;
  }
  const auto note = [&](absl::string_view what) {
    encoded.noted.push_back(absl::StrCat(kMarked, what));
  };
  if (options_.stage != Stage::kSupervised || options_.one_turn) {
    const bool last = options_.one_turn && !messages.empty() && !messages.back().learnt();
    if (last) note("last answers that are not trained: generated answers are compared with them");
    if (options_.stage == Stage::kSupervised) return;
    if (asked) note("messages before the answer as trained: this stage trains none of them");
    if (absl::c_any_of(converted.answers, [](const Message& each) { return !each.learnt(); }))
      encoded.skipped = "whose answer is marked (weight, loss, trainable) as not trained";
    return;
  }
  if (answers) note("answers that are not trained");
  if (others && !options_.train_on_prompt)
    note("messages of the user or a tool as trained: this needs train_on_prompt");
  if (converted.conversation.system_mark == false && options_.train_on_prompt &&
      messages.front().learnt())
    note(
        "the system text as not trained: train_on_prompt trains it with the user's first "
        "message");
  if (!learnt && answers && !options_.train_on_prompt)
    encoded.skipped = "all of whose answers are marked (weight, loss, trainable) as not trained";
}

void RowEncoder::EncodeText(const ConvertedRow& converted, EncodedRow& encoded) const {
  const Tokenizer& tokenizer = template_.tokenizer();
  const std::string& text = converted.conversation.messages.front().content;
  const bool bos = tokenizer.adds_bos() && tokenizer.bos().has_value() && !options_.joins_texts();
  const bool base =
      template_.spec().name ==
      "llama3";  // its eos ends an answer; plain texts end with the base model's end-of-text token
  const std::string end = base ? "<|end_of_text|>" : tokenizer.TokenOf(template_.eos());
  const std::string whole = absl::StrCat(bos ? tokenizer.TokenOf(*tokenizer.bos()) : "", text, end);
  encoded.turns = {{{}, tokenizer.Encode(whole)}};
  encoded.whole_tokens = Size(encoded.turns[0].response);
  if (text.empty()) encoded.noted.push_back("with an empty text");
}

absl::Status RowEncoder::EncodeConversation(const ConvertedRow& converted,
                                            EncodedRow& encoded) const {
  ASSIGN_OR_RETURN(encoded.turns,
                   template_.EncodeTurns(converted.conversation, options_.mask_history));
  encoded.whole_tokens = template_.spec().efficient_eos ? 1 : 0;
  for (const EncodedTurn& turn : encoded.turns)
    encoded.whole_tokens += Size(turn.prompt) + Size(turn.response);
  if (IsEmpty(converted.conversation.messages.back())) encoded.noted.push_back(kEmptyAnswer);
  return absl::OkStatus();
}

absl::Status RowEncoder::EncodePrompt(const ConvertedRow& converted, EncodedRow& encoded) const {
  ASSIGN_OR_RETURN(
      EncodedTurn turn,
      template_.EncodeAnswer(converted.conversation, Message{Role::kAssistant, std::string()}));
  turn.response.clear();
  encoded.whole_tokens = Size(turn.prompt);
  encoded.turns = {std::move(turn)};
  return absl::OkStatus();
}

absl::Status RowEncoder::EncodeLastAnswer(const ConvertedRow& converted,
                                          EncodedRow& encoded) const {
  Conversation asked = converted.conversation;
  const Message answer = std::move(asked.messages.back());
  asked.messages.pop_back();
  ASSIGN_OR_RETURN(EncodedTurn turn, EncodeAnswer(asked, answer));
  encoded.whole_tokens = Size(turn.prompt) + Size(turn.response);
  encoded.turns = {std::move(turn)};
  if (IsEmpty(answer)) encoded.noted.push_back(kEmptyAnswer);
  return absl::OkStatus();
}

absl::Status RowEncoder::EncodeAnswers(const ConvertedRow& converted, EncodedRow& encoded) const {
  const std::vector<Message>& answers = converted.answers;
  ASSIGN_OR_RETURN(EncodedTurn turn, EncodeAnswer(converted.conversation, answers[0]));
  encoded.turns = {std::move(turn)};
  encoded.desirable = converted.desirable;
  if (answers.size() > 1) {
    ASSIGN_OR_RETURN(EncodedTurn rejected, EncodeAnswer(converted.conversation, answers[1]));
    encoded.rejected = std::move(rejected.response);  // shares the prompt of the chosen answer
  }
  encoded.whole_tokens = Size(encoded.turns[0].prompt) +
                         std::max(Size(encoded.turns[0].response), Size(encoded.rejected));
  if (absl::c_any_of(answers, IsEmpty)) encoded.noted.push_back(kEmptyAnswer);
  if (answers.size() > 1 && answers[0].content == answers[1].content &&
      answers[0].thought == answers[1].thought && answers[0].said == answers[1].said)
    encoded.noted.push_back("whose chosen answer equals the rejected one");
  return absl::OkStatus();
}

absl::StatusOr<EncodedTurn> RowEncoder::EncodeAnswer(const Conversation& conversation,
                                                     const Message& answer) const {
  ASSIGN_OR_RETURN(EncodedTurn turn, template_.EncodeAnswer(conversation, answer));
  if (template_.spec().efficient_eos) turn.response.push_back(template_.eos());
  return turn;
}

absl::Status RowEncoder::CheckLength(EncodedRow& encoded) const {
  if (encoded.whole_tokens == 0) {
    encoded.skipped = "without any token";
    return absl::OkStatus();
  }
  if (encoded.whole_tokens <= options_.cutoff_len || options_.joins_texts())
    return absl::OkStatus();
  if (options_.overlong == Overlong::kError) {
    return absl::InvalidArgumentError(absl::StrCat("has ", encoded.whole_tokens,
                                                   " tokens, cutoff_len is ", options_.cutoff_len,
                                                   ", and overlong is error"));
  }
  if (options_.overlong == Overlong::kDrop)
    encoded.skipped = absl::StrCat("longer than cutoff_len ", options_.cutoff_len);
  return absl::OkStatus();
}

}  // namespace moonring::data
