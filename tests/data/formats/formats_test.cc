// The formats of conversations row by row (whole data sets are compared with LLaMA-Factory's in
// dataset_test), and what a stage refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// system/u:..|a:..|, then => each answer, the tools, the tag; or why it is skipped; or the error.
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
  for (const Message& message : row->conversation.messages)
    text += letter(message.role) + ":" + message.content + "|";
  for (const Message& answer : row->answers)
    text += (answer.role == Role::kAssistant ? "=>" : "=>f:") + answer.content;
  if (!row->conversation.tools.empty()) text += " tools " + row->conversation.tools;
  if (row->desirable.has_value()) text += *row->desirable ? " good" : " bad";
  return text;
}

std::string Sharegpt(const char* json, Stage stage = Stage::kSupervised) {
  return Told(ConvertSharegpt(OrderedJson::parse(json), Sharegpt(stage == Stage::kPairs), stage));
}
std::string Openai(const char* json) {
  return Told(ConvertOpenai(OrderedJson::parse(json), Sharegpt(), Stage::kSupervised));
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
  // A row without a tag is left out, but its answer may be mismatched with another row's prompt.
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

// LLaMA-Factory 0.9.5 has no such rows.
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
            "detailed thinking on/u:ab|a:<think>\nwhy\n</think>\n\nc|");
  EXPECT_EQ(
      said(R"([{"type": "reasoning", "value": "why"}, {"type": "text", "text": "c"}, )"
           R"({"type": "tool_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}])"),
      "detailed thinking on/u:ab|f:<think>\nwhy\n</think>\n\n[{\"name\": \"f\", \"arguments\": "
      "{}}]|");
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
      CheckStage({.columns = {.chosen = "c", .rejected = "r"}}, sft));  // unread without ranking
  EXPECT_OK(CheckStage(ranking, pairs));
  EXPECT_OK(CheckStage(judged, kto));
  EXPECT_THAT(CheckStage(ranking, sft),
              StatusIs(kInvalid,
                       "is a ranking data set (\"ranking\": true in its description), and stage "
                       "sft wants one answer a row"));
  EXPECT_THAT(CheckStage(ranking, pt), StatusIs(kInvalid, HasSubstr("is a ranking data set")));
  EXPECT_THAT(
      CheckStage(ranking, kto),
      StatusIs(kInvalid, HasSubstr("and stage kto wants one answer a row, marked true or false")));
  EXPECT_THAT(CheckStage(plain, pairs),
              StatusIs(kInvalid,
                       "is no ranking data set (its description lacks \"ranking\": true), and "
                       "stages rm and dpo want a chosen and a "
                       "rejected answer a row"));
  EXPECT_THAT(CheckStage(plain, kto),
              StatusIs(kInvalid, HasSubstr("is no KTO data set ('columns' names no 'kto_tag')")));
  EXPECT_THAT(CheckStage(judged, sft), StatusIs(kInvalid,
                                                "is a KTO data set ('columns' names a kto_tag, "
                                                "'good'), and stage sft wants one answer a row"));
  EXPECT_THAT(
      CheckStage({.formatting = "sharegpt"}, pt),
      StatusIs(kInvalid,
               HasSubstr("holds conversations (formatting sharegpt), and stage pt wants texts")));
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

// Texts of a data set with pictures are taken, one with a picture is not.
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
