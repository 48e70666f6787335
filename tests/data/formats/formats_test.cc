// The formats of conversations, row by row (dataset_test compares whole data sets with
// LLaMA-Factory's), and the rows that a stage rejects.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "data/description/stage.h"
#include "data/formats/alpaca.h"
#include "data/formats/format_table.h"
#include "data/formats/openai.h"
#include "data/formats/sharegpt.h"
#include "data/text/json/python_json.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto kInvalid = absl::StatusCode::kInvalidArgument;
const auto kLater = absl::StatusCode::kUnimplemented;

DatasetDescription Sharegpt(bool ranking = false) {
  return {.formatting = "sharegpt",
          .ranking = ranking,
          .columns = {.named = true,
                      .system = "sys",
                      .tools = "t",
                      .chosen = "c",
                      .rejected = "r",
                      .kto_tag = "good"}};
}

// Returns a row as text: system/u:..|a:.., then => and each answer, the tools, the kto tag; or the
// reason why it is skipped; or the error.
std::string Told(const absl::StatusOr<ConvertedRow>& row) {
  if (!row.ok()) return row.status().ToString();
  if (!row->skipped.empty()) return "skipped: " + row->skipped;
  std::string text = row->conversation.system + "/";
  const auto letter = [](Role role) {
    return std::string(role == Role::kUser          ? "u"
                       : role == Role::kAssistant   ? "a"
                       : role == Role::kObservation ? "o"
                                                    : "f");
  };
  // The other fields of a message as text: (reasoning), 'text next to a tool call', and + or - for
  // a message that is marked as trained or not.
  const auto beside = [](const Message& message) {
    return (message.thought.empty() ? "" : "(" + message.thought + ")") +
           (message.said.empty() ? "" : "'" + message.said + "'") +
           (message.mark.has_value() ? (*message.mark ? "+" : "-") : "");
  };
  for (const Message& message : row->conversation.messages)
    text += letter(message.role) + ":" + beside(message) + message.content + "|";
  for (const Message& answer : row->answers)
    text += (answer.role == Role::kAssistant ? "=>" : "=>f:") + beside(answer) + answer.content;
  if (!row->conversation.tools.empty()) text += " tools " + row->conversation.tools;
  if (row->desirable.has_value()) text += *row->desirable ? " good" : " bad";
  return text;
}

std::string Sharegpt(const char* json, Stage stage = Stage::kSupervised) {
  return Told(ConvertSharegpt(OrderedJson::parse(json), Sharegpt(stage == Stage::kPairs), stage));
}
std::string Openai(const char* json, Stage stage = Stage::kSupervised) {
  return Told(ConvertOpenai(OrderedJson::parse(json), Sharegpt(stage == Stage::kPairs), stage));
}
std::string Alpaca(const char* json, Stage stage) {
  return Told(ConvertAlpaca(
      OrderedJson::parse(json),
      {.columns =
           {.named = true, .history = "h", .chosen = "c", .rejected = "r", .kto_tag = "good"}},
      stage));
}

TEST(SharegptTest, MakesConversations) {
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", )"
                     R"("value": "b"}], "sys": "s"})"),
            "s/u:a|a:b|");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "system", "value": "S"}, {"from": "human", )"
                     R"("value": ""}, {"from": "gpt", "value": ""}], "sys": "s"})"),
            "S/u:|a:|");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "system", "value": null}, {"from": "human", )"
                     R"("value": "a"}, {"from": "gpt", "value": "b"}], "sys": "s"})"),
            "/u:a|a:b|");
  EXPECT_EQ(Sharegpt(R"({"conversations": null})"), "skipped: without any message");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "system", "value": "S"}]})"),
            "skipped: without any message");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}]})"),
            "skipped: that do not end with an answer");
  const auto of_messages = [](const char* messages) {
    return Sharegpt((std::string("{\"conversations\": [") + messages + "]}").c_str());
  };
  const std::string out_of_turn = "skipped: whose user and assistant do not take turns";
  EXPECT_EQ(of_messages(R"({"from": "gpt", "value": "b"}, {"from": "human", "value": "a"})"),
            out_of_turn);
  EXPECT_EQ(of_messages(R"({"from": "human", "value": "b"}, {"from": "human", "value": "a"})"),
            out_of_turn);
  EXPECT_EQ(of_messages(R"({"from": "human", "value": "b"}, {"from": "system", "value": "a"})"),
            out_of_turn);
  EXPECT_EQ(of_messages(R"({"from": "human", "value": "b"}, {"value": "a"})"),
            "skipped: with a message that has no 'from' (the description's 'tags' say which key is "
            "the role)");
  EXPECT_EQ(of_messages(R"({"from": "human", "value": "b"}, {"from": "Gpt", "value": "a"})"),
            "skipped: with a role that the description's 'tags' do not name");
}

TEST(SharegptTest, MakesPairsAndJudgedAnswers) {
  const Stage pairs = Stage::kPairs, feedback = Stage::kFeedback;
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "q"}], "c": {"from": "gpt", )"
                     R"("value": "y"}, "r": {"from": "gpt", "value": "n"}})",
                     pairs),
            "/u:q|=>y=>n");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "q"}], "c": null, )"
                     R"("r": {"from": "gpt", "value": "n"}})",
                     pairs),
            "skipped: no 'c'");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "q"}], "c": {"from": "gpt", )"
                     R"("value": "y"}, "r": {"from": "human", "value": "n"}})",
                     pairs),
            "skipped: 'r' that is not the assistant's");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", )"
                     R"("value": "y"}], "c": {}, "r": {}})",
                     pairs),
            "skipped: that do not end with the user's message");
  EXPECT_THAT(
      Sharegpt(R"({"conversations": [{"from": "human", "value": "q"}], "c": "y", "r": "n"})",
               pairs),
      HasSubstr("'c' must be a message (an object), got string"));
  const std::string talk =
      R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "y"}], )"
      R"("good": )";
  EXPECT_EQ(Sharegpt((talk + "true}").c_str(), feedback), "/u:q|=>y good");
  EXPECT_EQ(Sharegpt((talk + "false}").c_str(), feedback), "/u:q|=>y bad");
  EXPECT_EQ(Sharegpt((talk + "null}").c_str(), feedback), "skipped: no 'good'");
  EXPECT_THAT(Sharegpt((talk + "1}").c_str(), feedback),
              HasSubstr("'good' must be true or false, got number"));
  for (const char* text : {"true", "True", "TRUE"})
    EXPECT_EQ(Sharegpt((talk + "\"" + text + "\"}").c_str(), feedback), "/u:q|=>y good");
  for (const char* text : {"false", "False", "FALSE"})
    EXPECT_EQ(Sharegpt((talk + "\"" + text + "\"}").c_str(), feedback), "/u:q|=>y bad");
  EXPECT_THAT(Sharegpt((talk + "\"yes\"}").c_str(), feedback),
              HasSubstr("'good' must be true or false, got string"));
  // A row without a tag is skipped, but its answer may become the mismatched answer of another row.
  EXPECT_THAT(ConvertSharegpt(OrderedJson::parse(talk + "null}"), Sharegpt(), feedback)->answers,
              ElementsAre(::testing::Field(&Message::content, "y")));
}

TEST(SharegptTest, NamesWhatIsWrong) {
  EXPECT_THAT(Sharegpt("[1]"), HasSubstr("a row must be an object, got array"));
  EXPECT_THAT(Sharegpt(R"({"conversations": "x"})"),
              HasSubstr("'conversations' must be an array of messages, got string"));
  EXPECT_THAT(Sharegpt(R"({"conversations": ["x"]})"),
              HasSubstr("'conversations'[0] must be a message (an object), got string"));
  EXPECT_THAT(Sharegpt(R"({"conversations": [{"from": 3}]})"),
              HasSubstr("'conversations'[0]: 'from' must be a string, got number"));
  EXPECT_THAT(Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}, )"
                       R"({"from": "gpt", "value": null}]})"),
              HasSubstr("'conversations'[1]: 'value' must be a string, got null"));
  EXPECT_THAT(Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", )"
                       R"("value": "b"}], "t": []})"),
              HasSubstr("'t' must be a string, got array"));
}

TEST(SharegptTest, MakesCallsOfTools) {
  EXPECT_EQ(
      Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", )"
               R"("value": "{}"}, {"from": "observation", "value": "3"},
                        {"from": "gpt", "value": "b"}], "t": "[]"})"),
      "/u:a|f:{}|o:3|a:b| tools []");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "observation", "value": "a"}, {"from": "gpt", )"
                     R"("value": "b"}]})"),
            "/o:a|a:b|");
  EXPECT_EQ(
      Sharegpt(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "observation", )"
               R"("value": "b"}]})"),
      "skipped: whose user and assistant do not take turns");
  EXPECT_EQ(
      Sharegpt(
          R"({"conversations": [{"from": "human", "value": "q"}], )"
          R"("c": {"from": "function_call", "value": "y"}, "r": {"from": "gpt", "value": "n"}})",
          Stage::kPairs),
      "/u:q|=>f:y=>n");
}

TEST(OpenaiTest, MakesCallsOfTools) {
  EXPECT_EQ(
      Openai(
          R"({"conversations": [{"from": "human", "value": "a"},
                        {"from": "gpt", "value": null, "tool_calls": [{"type": "function", )"
          R"("function": {"name": "f", "arguments": {"b": 1.50, "a": "ü"}}}]},
                        {"from": "observation", "value": "3"}, {"from": "observation", )"
          R"("value": "4"}, {"from": "gpt", "value": "b"}, {"from": "observation", "value": "5"}],
                      "t": [{"name": "f"}], "sys": "s"})"),
      "s\n/u:a|f:[{\"name\": \"f\", \"arguments\": {\"b\": 1.5, \"a\": "
      "\"ü\"}}]|o:3\n</tool_response>\n<tool_response>\n4|a:b| tools [{\"name\": \"f\"}]");
  EXPECT_EQ(Openai(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", )"
                   R"("value": "b"}], "t": "[1]"})"),
            "/u:a|a:b| tools [1]");
  EXPECT_THAT(
      Openai(
          R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": null, )"
          R"("tool_calls": [{}]}]})"),
      HasSubstr("'conversations'[1]: each of 'tool_calls' must have a 'function'"));
}

// A content may be a list of parts. (LLaMA-Factory 0.9.5 does not support such rows.)
TEST(OpenaiTest, ReadsPartsOfAContent) {
  const auto said = [](const std::string& parts) {
    return Openai((R"({"conversations": [{"from": "system", "value": [{"type": "text", )"
                   R"("value": "detailed thinking on"}]},
                       {"from": "human", "value": [{"type": "text", "text": "a"}, )"
                   R"({"type": "text", "value": "b"}]}, {"from": "gpt", "value": )" +
                   parts + "}]}")
                      .c_str());
  };
  EXPECT_EQ(said(R"([{"type": "text", "text": "c"}])"), "detailed thinking on/u:ab|a:c|");
  EXPECT_EQ(said(R"([{"type": "text", "text": "c"}, {"type": "reasoning", "value": "\nwhy\n"}])"),
            "detailed thinking on/u:ab|a:(\nwhy\n)c|");
  EXPECT_EQ(said(R"([{"type": "reasoning", "value": "why"}, {"type": "text", "text": "c"}, )"
                 R"({"type": "tool_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}])"),
            "detailed thinking on/u:ab|f:(why)'c'[{\"name\": \"f\", \"arguments\": {}}]|");
  EXPECT_EQ(said(R"([{"type": "thinking", "thinking": [{"type": "text", "text": "w"}, "hy"]}, )"
                 R"({"type": "tool_use", "id": "c1", "name": "f", "input": {"a": null, "b": 1}}])"),
            "detailed thinking on/u:ab|f:(why)[{\"name\": \"f\", \"arguments\": {\"b\": 1}}]|");
  EXPECT_EQ(said(R"(["c", {"type": "refusal", "refusal": "d"}])"),
            "detailed thinking on/u:ab|a:cd|");
  EXPECT_EQ(said("[]"), "detailed thinking on/u:ab|a:|");
  EXPECT_THAT(
      said("[3]"),
      HasSubstr("'conversations'[2]: 'value': part 0 must be an object with 'type', got number"));
  EXPECT_THAT(
      said(R"([{"type": "text", "text": "c"}, {"type": "image_url", "image_url": "x"}])"),
      HasSubstr("part 1 has the type \"image_url\"; text, reasoning and tool_call can be read"));
  EXPECT_THAT(said(R"([{"type": "text"}])"), HasSubstr("part 0 must have a text, got null"));
  EXPECT_THAT(said(R"([{"type": "tool_call", "value": "{"}])"), HasSubstr("part 0: "));
}

// A row with the prompt "q" and an answer {content: "x"} that has these additional members.
std::string Answer(const std::string& members, bool openai = true,
                   const std::string& content = "\"x\"") {
  const std::string row = R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", )"
                          R"("value": )" +
                          content + members + R"(}], "sys": "detailed thinking on"})";
  std::string told = openai ? Openai(row.c_str()) : Sharegpt(row.c_str());
  for (const char* answer : {"|a:", "|f:"}) {
    if (const size_t at = told.find(answer); at != std::string::npos) return told.substr(at + 1);
  }
  return told;
}

// Returns the notes about a row of Answer().
std::vector<std::string> NotedOf(const std::string& members, bool openai = true) {
  const OrderedJson row = OrderedJson::parse(
      R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "x")" +
      members + "}]}");
  const auto converted = openai ? ConvertOpenai(row, Sharegpt(), Stage::kSupervised)
                                : ConvertSharegpt(row, Sharegpt(), Stage::kSupervised);
  return converted.ok() ? converted->noted
                        : std::vector<std::string>{converted.status().ToString()};
}

TEST(MessageFieldsTest, ThoughtsAreBesideTheText) {
  for (const bool openai : {true, false}) {
    for (const char* field : {"reasoning_content", "reasoning", "thinking"}) {
      const std::string key = absl::StrCat(", \"", field, "\": ");
      EXPECT_EQ(Answer(key + "\"why\"", openai), "a:(why)x|");
      EXPECT_EQ(Answer(key + "\"\"", openai), "a:x|");
      EXPECT_EQ(Answer(key + "null", openai), "a:x|");
      EXPECT_EQ(Answer(key + R"([{"type": "text", "text": "w"}, "hy"])", openai), "a:(why)x|");
      EXPECT_THAT(Answer(key + "3", openai),
                  HasSubstr(absl::StrCat("'conversations'[1]: '", field,
                                         "' must be a thought's text, got number")));
      EXPECT_EQ(Answer(key + "\"why\"", openai, "null"), "a:(why)|");
    }
    EXPECT_EQ(Answer(R"(, "reasoning": "why", "reasoning_content": "why")", openai), "a:(why)x|");
    EXPECT_THAT(Answer(R"(, "reasoning": "why", "reasoning_content": "how")", openai),
                HasSubstr("'reasoning_content' and 'reasoning' are two thoughts"));
  }
}

TEST(MessageFieldsTest, MarksSelectWhatIsTrained) {
  for (const bool openai : {true, false}) {
    for (const char* field :
         {"weight", "loss", "trainable", "train", "training", "loss_weight", "loss_mask"}) {
      const std::string key = absl::StrCat(", \"", field, "\": ");
      for (const char* no : {"0", "0.0", "false", "\"false\"", "\"0\""})
        EXPECT_EQ(Answer(key + no, openai), "a:-x|") << field << no;
      for (const char* yes : {"1", "1.0", "true", "\"True\""})
        EXPECT_EQ(Answer(key + yes, openai), "a:+x|") << field << yes;
      EXPECT_EQ(Answer(key + "null", openai), "a:x|");
      for (const char* other : {"0.5", "2", "-1", "\"much\"", "[0, 1]", "{}"})
        EXPECT_THAT(Answer(key + other, openai),
                    HasSubstr(absl::StrCat("'conversations'[1]: '", field, "' is ")))
            << other;
    }
    EXPECT_THAT(
        Answer(", \"weight\": 0.5", openai),
        HasSubstr("'weight' is 0.5: a message is trained (1, true) or it is not (0, false); "
                  "write one of these"));
    EXPECT_EQ(Answer(", \"weight\": 0, \"loss\": false", openai), "a:-x|");
    EXPECT_THAT(Answer(", \"weight\": 0, \"loss\": true", openai),
                HasSubstr("'weight' and 'loss' contradict each other"));
  }
  EXPECT_EQ(Openai(R"({"conversations": [{"from": "human", "value": "q", "weight": 1}, )"
                   R"({"from": "gpt", "value": "x", "weight": 0}], "t": "[]"})"),
            "/u:+q|a:-x| tools []");
}

TEST(MessageFieldsTest, CallsComeInManyForms) {
  const char* wanted = "f:[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]|";
  for (const bool openai : {true, false}) {
    for (const char* calls : {
             R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": )"
             R"({"a": 1}}}])",
             R"("tool_calls": [{"id": null, "type": null, "function": {"name": "f", )"
             R"("arguments": {"a": 1, "b": null}}}])",
             R"("tool_calls": [{"name": "f", "arguments": {"a": 1}}])",
             R"("tool_calls": ["{\"name\": \"f\", \"arguments\": {\"a\": 1}}"])",
             R"("tool_calls": "[{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]")",
             R"("tool_calls": [], "function_call": {"name": "f", "arguments": {"a": 1}})",
         }) {
      EXPECT_EQ(Answer(std::string(", ") + calls, openai, "null"), wanted) << calls;
      EXPECT_EQ(Answer(std::string(", ") + calls, openai, "\" \\n\""), wanted) << calls;
      EXPECT_EQ(Answer(std::string(", ") + calls, openai), std::string("f:'x'") + (wanted + 2));
    }
    EXPECT_EQ(Answer(R"(, "tool_calls": null, "function_call": null)", openai), "a:x|");
    EXPECT_EQ(Answer(R"(, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}])", openai),
              "f:'x'[{\"name\": \"f\", \"arguments\": \"{\"}]|");  // for the template to refuse
    EXPECT_THAT(Answer(R"(, "tool_calls": [{"type": "custom", "custom": {"name": "f"}}])", openai),
                HasSubstr("'tool_calls' has a call of the type \"custom\"; calls of functions can "
                          "be read"));
    EXPECT_THAT(Answer(R"(, "tool_calls": ["{"])", openai),
                HasSubstr("'tool_calls' is a text that must be JSON"));
    EXPECT_THAT(Answer(R"(, "tool_calls": [null])", openai),
                HasSubstr("'tool_calls' must have calls (objects), got null"));
  }
}

TEST(MessageFieldsTest, WhatNothingReadsIsNoted) {
  const auto passed_over = [](const char* field) {
    return absl::StrCat("with '", field, "' in a message, which is ignored");
  };
  for (const bool openai : {true, false}) {
    EXPECT_THAT(NotedOf("", openai), ElementsAre());
    EXPECT_THAT(NotedOf(R"(, "weight": 1, "name": null, "annotations": [], "audio": null)", openai),
                ElementsAre());
    EXPECT_THAT(NotedOf(R"(, "name": "bot", "annotations": [{"type": "url"}], "n": 0)", openai),
                ElementsAre(passed_over("name"), passed_over("annotations"), passed_over("n")));
    EXPECT_THAT(NotedOf(R"(, "audio": {"id": "a"})", openai),
                ElementsAre(HasSubstr("'conversations'[1]: 'audio' has an image, a video or sound; "
                                      "models read text alone here")));
    EXPECT_THAT(NotedOf(R"(, "refusal": "No.")", openai),
                ElementsAre("with a 'refusal' next to an answer's text, which is ignored"));
    EXPECT_EQ(Answer(R"(, "refusal": "No.")", openai, "null"), "a:No.|");
  }
  EXPECT_THAT(NotedOf(R"(, "tool_calls": [{"id": "c", "index": 0, "type": "function", "function": )"
                      R"({"name": "f", "arguments": "{}"}}])"),
              ElementsAre("with 'id' in a tool call, which is ignored",
                          "with 'index' in a tool call, which is ignored",
                          "with the arguments of a call as a string of JSON, which is parsed"));
  EXPECT_THAT(
      NotedOf(R"(, "tool_calls": [{"name": "f", "arguments": {"a": [{"b": null}]}}])", false),
      ElementsAre(HasSubstr("with nulls in tool calls or tools, which are ignored"),
                  HasSubstr("trained as calls (LLaMA-Factory ignores them in this format)")));
  const auto columns = [](const char* json) {
    return ConvertRow(OrderedJson::parse(json), {}, Stage::kSupervised)->noted;
  };
  EXPECT_THAT(columns(R"({"instruction": "a", "output": "b", "id": 3, "system": ""})"),
              ElementsAre());
  EXPECT_THAT(
      columns(R"({"instruction": "a", "output": "b", "system": "s", "loss": false})"),
      ElementsAre("with the column 'system', which the description's 'columns' do not name: "
                  "it is ignored",
                  "with the column 'loss', which the description's 'columns' do not name: "
                  "it is ignored"));
}

// NaN counts as missing, because pandas writes it for missing values. Any other number in place of
// a text is an error.
TEST(MessageFieldsTest, NanIsMissing) {
  const auto alpaca = [](double number) {
    const OrderedJson row = {{"instruction", "q"}, {"input", number}, {"output", "a"}};
    return Told(ConvertAlpaca(row, {}, Stage::kSupervised));
  };
  EXPECT_EQ(alpaca(std::nan("")), "/u:q|a:a|");
  EXPECT_THAT(alpaca(INFINITY), HasSubstr("'input' must be a string, got number"));
}

TEST(MessageFieldsTest, RolesOfOpenaisOwn) {
  const std::string talk = R"({"from": "human", "value": "q"}, {"from": "gpt", "value": null, )"
                           R"("function_call": {"name": "f", "arguments": "{}"}}, )"
                           R"({"from": "function", "name": "f", "value": "3"}, )"
                           R"({"from": "gpt", "value": "x"})";
  const std::string calls = "u:q|f:[{\"name\": \"f\", \"arguments\": \"{}\"}]|o:3|a:x|";
  EXPECT_EQ(Openai((R"({"conversations": [)" + talk + R"(], "t": "[]"})").c_str()),
            "/" + calls + " tools []");
  EXPECT_EQ(Openai((R"({"conversations": [{"from": "developer", "value": "S"}, )" + talk +
                    R"(], "t": "[]"})")
                       .c_str()),
            "S\n/" + calls + " tools []");
  EXPECT_EQ(Sharegpt(R"({"conversations": [{"from": "developer", "value": "S"}, )"
                     R"({"from": "human", "value": "q"}, {"from": "gpt", "value": "x"}]})"),
            "S/u:q|a:x|");
  EXPECT_EQ(Sharegpt((R"({"conversations": [)" + talk + "]}").c_str()),
            "skipped: with a role that the description's 'tags' do not name");
}

// Tool results at the end of a conversation belong to the prompt in pairs and in prompt rows; in
// other rows they are dropped.
TEST(MessageFieldsTest, TrailingResults) {
  const std::string talk =
      R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", )"
      R"("value": null, "tool_calls": [{"name": "f", "arguments": {}}]}, )"
      R"({"from": "observation", "value": "3"}, )"
      R"({"from": "observation", "value": "4"}], "t": "[]",)"
      R"("c": {"from": "gpt", "value": "y"}, "r": {"from": "gpt", "value": "n"}})";
  const std::string call = "/u:q|f:[{\"name\": \"f\", \"arguments\": {}}]|";
  EXPECT_EQ(Openai(talk.c_str()), call + " tools []");
  EXPECT_EQ(Openai(talk.c_str(), Stage::kPairs),
            call + "o:3\n</tool_response>\n<tool_response>\n4|=>y=>n tools []");
  EXPECT_EQ(Openai(talk.c_str(), Stage::kPrompts),
            call + "o:3\n</tool_response>\n<tool_response>\n4| tools []");
  EXPECT_THAT(ConvertOpenai(OrderedJson::parse(talk), Sharegpt(), Stage::kSupervised)->noted,
              ElementsAre("that end with tool results without an answer, which are dropped"));
}

// Null members are removed from tools: Arrow gives every row's objects the members of all rows,
// with null for the missing ones.
TEST(OpenaiTest, ToolsAreAsTheirRowHasThem) {
  const auto tools = [](const std::string& given) {
    const std::string told =
        Openai((R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": )"
                R"("x"}], "t": )" +
                given + "}")
                   .c_str());
    return told.substr(told.find(" tools ") + 7);
  };
  EXPECT_EQ(tools(R"([{"name": "f", "parameters": {"properties": {"a": {"type": "string", "enum": )"
                  R"(null}, "b": null}, "required": ["a"]}, "strict": null}])"),
            R"([{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}, "required": )"
            R"(["a"]}}])");
  EXPECT_EQ(tools(R"(["{\"name\": \"f\", \"x\": null}"])"), R"([{"name": "f", "x": null}])");
  EXPECT_EQ(tools(R"({"name": "f"})"), R"([{"name": "f"}])");
}

TEST(OpenaiTest, AddsToTheSystemText) {
  const auto with = [](const char* system) {
    return Openai(
        (R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", )"
         R"("tool_calls": []}], "sys": )" +
         std::string(system) + "}")
            .c_str());
  };
  EXPECT_EQ(with("null"), "detailed thinking off/u:a|a:b|");
  EXPECT_EQ(with("\"\""), "detailed thinking off/u:a|a:b|");
  EXPECT_EQ(with("\"s\""), "s\ndetailed thinking off/u:a|a:b|");
  EXPECT_EQ(with("\"s detailed thinking on\""), "s detailed thinking on/u:a|a:b|");
  EXPECT_EQ(with("\"detailed thinking off s\""), "detailed thinking off s/u:a|a:b|");
}

TEST(AlpacaTest, MakesTextsPairsAndJudgedAnswers) {
  EXPECT_EQ(Alpaca(R"({"instruction": "a text"})", Stage::kPretraining), "/u:a text|");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "c": "y", "r": "", "h": [["a", "b"]]})", Stage::kPairs),
            "/u:a|a:b|u:q|=>y=>");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "c": "y"})", Stage::kPairs), "skipped: no 'r'");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "r": "n"})", Stage::kPairs), "skipped: no 'c'");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "output": "", "good": true})", Stage::kFeedback),
            "/u:q|=> good");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "output": "x"})", Stage::kFeedback),
            "skipped: no 'good'");
  EXPECT_EQ(Alpaca(R"({"instruction": "q", "good": false})", Stage::kFeedback),
            "skipped: no 'output'");
}

TEST(StageTest, HasNames) {
  EXPECT_EQ(*ParseStage("pt"), Stage::kPretraining);
  EXPECT_EQ(*ParseStage("sft"), Stage::kSupervised);
  EXPECT_EQ(*ParseStage("rm"), Stage::kPairs);
  EXPECT_EQ(*ParseStage("dpo"), Stage::kPairs);
  EXPECT_EQ(*ParseStage("kto"), Stage::kFeedback);
  EXPECT_EQ(*ParseStage("prompts"), Stage::kPrompts);
  EXPECT_THAT(ParseStage("ppo"),
              StatusIs(kInvalid, "stage must be pt, sft, rm, dpo, kto or prompts, got 'ppo'"));
}

TEST(StageTest, RefusesDataOfAnotherKind) {
  const Stage pt = Stage::kPretraining, sft = Stage::kSupervised, pairs = Stage::kPairs,
              kto = Stage::kFeedback;
  const DatasetDescription plain{},
      ranking{.ranking = true, .columns = {.chosen = "c", .rejected = "r"}},
      judged{.columns = {.kto_tag = "good"}};
  for (const Stage stage : {pt, sft}) EXPECT_OK(CheckStage(plain, stage));
  EXPECT_OK(
      CheckStage({.columns = {.chosen = "c", .rejected = "r"}}, sft));  // only read with ranking
  EXPECT_OK(CheckStage(ranking, pairs));
  EXPECT_OK(CheckStage(judged, kto));
  EXPECT_THAT(CheckStage(ranking, sft),
              StatusIs(kInvalid,
                       "is a ranking data set (\"ranking\": true in its description), and stage "
                       "sft requires one answer a row"));
  EXPECT_THAT(CheckStage(ranking, pt), StatusIs(kInvalid, HasSubstr("is a ranking data set")));
  EXPECT_THAT(CheckStage(ranking, kto),
              StatusIs(kInvalid,
                       HasSubstr("and stage kto requires one answer a row, marked true or false")));
  EXPECT_THAT(CheckStage(plain, pairs),
              StatusIs(kInvalid,
                       "is no ranking data set (its description lacks \"ranking\": true), and "
                       "stages rm and dpo require a chosen and a "
                       "rejected answer a row"));
  EXPECT_THAT(CheckStage(plain, kto),
              StatusIs(kInvalid, HasSubstr("is no KTO data set ('columns' names no 'kto_tag')")));
  EXPECT_THAT(CheckStage(judged, sft),
              StatusIs(kInvalid,
                       "is a KTO data set ('columns' names a kto_tag, "
                       "'good'), and stage sft requires one answer a row"));
  EXPECT_THAT(
      CheckStage({.formatting = "sharegpt"}, pt),
      StatusIs(
          kInvalid,
          HasSubstr("holds conversations (formatting sharegpt), and stage pt requires texts")));
}

TEST(StageTest, RefusesMissingAndUnknownColumns) {
  const Stage sft = Stage::kSupervised;
  EXPECT_OK(CheckStage({.columns = {.tools = "t"}}, sft));
  EXPECT_OK(CheckStage({.columns = {.images = "t"}}, sft));
  EXPECT_THAT(CheckStage({.columns = {.response = std::nullopt}}, sft),
              StatusIs(kInvalid, HasSubstr("'columns' names no 'response'")));
  EXPECT_OK(CheckStage({.columns = {.response = std::nullopt}}, Stage::kPretraining));
  EXPECT_THAT(CheckStage({.columns = {.prompt = std::nullopt, .query = std::nullopt}}, sft),
              StatusIs(kInvalid, HasSubstr("neither 'prompt' nor 'query'")));
  EXPECT_THAT(CheckStage({.ranking = true, .columns = {.chosen = "c"}}, Stage::kPairs),
              StatusIs(kInvalid, HasSubstr("'columns' names no 'rejected'")));
  EXPECT_THAT(CheckStage({.formatting = "sharegpt", .columns = {.messages = std::nullopt}}, sft),
              StatusIs(kInvalid, HasSubstr("'columns' names no 'messages'")));
  EXPECT_THAT(CheckStage({.formatting = "openai", .tags = {.user_tag = std::nullopt}}, sft),
              StatusIs(kInvalid, HasSubstr("'tags' names no 'user_tag'")));
}

// In a data set with an images column, rows without an image are accepted and rows with one are
// rejected.
TEST(MediaTest, ARowWithOneIsRefused) {
  const DatasetDescription with = {.formatting = "sharegpt",
                                   .columns = {.images = "pictures", .audios = "sounds"}};
  const auto convert = [](const DatasetDescription& description, const std::string& more,
                          const std::string& said) {
    return ConvertRow(
        *ParseOrderedJson(R"({"conversations": [{"from": "human", "value": ")" + said +
                          R"("}, {"from": "gpt", "value": "b"}])" + more + "}"),
        description, Stage::kSupervised);
  };
  const std::string taken = Told(convert({.formatting = "sharegpt"}, "", "a"));
  for (const char* none : {"", R"(, "pictures": [])", R"(, "pictures": null)",
                           R"(, "pictures": [], "sounds": "")", R"(, "images": ["x.png"])"})
    EXPECT_EQ(Told(convert(with, none, "a")), taken) << none;
  EXPECT_THAT(convert(with, R"(, "pictures": ["x.png"])", "<image>a"),
              StatusIs(kLater, "'pictures' has an image; models read text alone here"));
  EXPECT_THAT(convert(with, R"(, "sounds": "x.wav")", "a"),
              StatusIs(kLater, "'sounds' has sound; models read text alone here"));
  EXPECT_THAT(convert(with, "", "a <image> b"),
              StatusIs(kInvalid, "a text has <image>, and 'pictures' has none"));
  EXPECT_OK(convert({.formatting = "sharegpt"}, "", "write <image> in HTML"));
}

}  // namespace
}  // namespace moonring::data
