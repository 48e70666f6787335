#include "data/row_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"
#include "data/formats/format_table.h"
#include "data/text/json/python_json.h"
#include "data/token_ids.h"

namespace moonring::data {
namespace {

constexpr char kEmptyAnswer[] = "with an empty answer";

int64_t Size(const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); }

}  // namespace

absl::StatusOr<EncodedRow> RowEncoder::Encode(const Row& row,
                                              const DatasetDescription& description) const {
  ASSIGN_OR_RETURN(const ConvertedRow converted,
                   ConvertRow(row.value, description, options_.stage));
  EncodedRow encoded{.where = Where(row), .skipped = converted.skipped};
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
  ASSIGN_OR_RETURN(EncodedRow encoded, Encode(row, description), Where(row));
  return encoded;
}

void RowEncoder::EncodeText(const ConvertedRow& converted, EncodedRow& encoded) const {
  const Tokenizer& tokenizer = template_.tokenizer();
  const std::string& text = converted.conversation.messages.front().content;
  const bool bos = tokenizer.adds_bos() && tokenizer.bos().has_value() && !options_.joins_texts();
  const bool base =
      template_.spec().name ==
      "llama3";  // its eos ends an answer; a text ends as those that the base model was trained on
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
  if (converted.conversation.messages.back().content.empty()) encoded.noted.push_back(kEmptyAnswer);
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
  if (answer.content.empty()) encoded.noted.push_back(kEmptyAnswer);
  return absl::OkStatus();
}

absl::Status RowEncoder::EncodeAnswers(const ConvertedRow& converted, EncodedRow& encoded) const {
  const std::vector<Message>& answers = converted.answers;
  ASSIGN_OR_RETURN(EncodedTurn turn, EncodeAnswer(converted.conversation, answers[0]));
  encoded.turns = {std::move(turn)};
  encoded.desirable = converted.desirable;
  if (answers.size() > 1) {
    ASSIGN_OR_RETURN(EncodedTurn rejected, EncodeAnswer(converted.conversation, answers[1]));
    encoded.rejected = std::move(rejected.response);  // to the chosen one's prompt
  }
  encoded.whole_tokens = Size(encoded.turns[0].prompt) +
                         std::max(Size(encoded.turns[0].response), Size(encoded.rejected));
  if (std::any_of(answers.begin(), answers.end(),
                  [](const Message& answer) { return answer.content.empty(); }))
    encoded.noted.push_back(kEmptyAnswer);
  if (answers.size() > 1 && answers[0].content == answers[1].content)
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
