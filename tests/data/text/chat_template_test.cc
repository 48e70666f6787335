// The texts that chat templates make from conversations, with a small tokenizer that has SmolLM2's
// special tokens. (dataset_test compares tokens with LLaMA-Factory's, and tests/lua/templates_test
// does so for every named template.)
#include "data/text/chat_template.h"

#include <algorithm>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/text/named_templates.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::NamedTemplate;
using ::moonring::testing::ReadRunfile;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr char kConfig[] =
    R"({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})";

std::string Json(const std::string& name) {
  return ReadRunfile("tests/golden/tokenizer/tiny/" + name + ".tokenizer.json");
}

std::shared_ptr<const Tokenizer> MakeTokenizer(const std::string& name = "smollm2",
                                               const std::string& config = kConfig) {
  return *Tokenizer::FromJson(Json(name), config, name);
}

ChatTemplate Template(const std::string& name, std::optional<std::string> system = std::nullopt) {
  return *ChatTemplate::Create(NamedTemplate(name), MakeTokenizer(), system);
}

// Returns the text of all turns, including special tokens.
std::string TextOf(const ChatTemplate& chat, const Conversation& conversation) {
  std::string text;
  const std::vector<EncodedTurn> turns = *chat.EncodeTurns(conversation);
  for (const EncodedTurn& turn : turns)
    text += "[" + chat.tokenizer().Decode(turn.prompt) + "][" +
            chat.tokenizer().Decode(turn.response) + "]";
  return text;
}

Ids Join(const std::vector<Ids>& parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Conversation kTwoTurns = {.messages = {{Role::kUser, "Hi"},
                                             {Role::kAssistant, "Hello"},
                                             {Role::kUser, "And?"},
                                             {Role::kAssistant, ""}}};

TEST(ChatTemplateTest, ReadsAsTheModelsExpect) {
  EXPECT_EQ(TextOf(Template("chatml"), kTwoTurns),
            "[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n][Hello<|im_end|>\n][<|im_"
            "start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n][<|im_end|>\n]");
  EXPECT_EQ(TextOf(Template("default"), kTwoTurns),
            "[Human: Hi<|im_end|>\nAssistant:][Hello<|im_end|>\n][Human: "
            "And?<|im_end|>\nAssistant:][<|im_end|>\n]");
  EXPECT_EQ(
      TextOf(Template("smollm2"), {.messages = {{Role::kUser, "Hi"}, {Role::kAssistant, "Hello"}}}),
      "[<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
      "Face.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]"
      "[Hello<|im_end|>\n]");
}

TEST(ChatTemplateTest, SystemTexts) {
  const auto first = [](const ChatTemplate& chat, const std::string& system) {
    const std::string text =
        TextOf(chat, {.system = system, .messages = {{Role::kUser, "Hi"}, {Role::kAssistant, ""}}});
    return text.substr(0, text.find("Hi"));
  };
  EXPECT_EQ(first(Template("chatml"), "Be brief."),
            "[<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n");
  EXPECT_EQ(first(Template("default"), "Be brief."), "[System: Be brief.<|im_end|>\nHuman: ");
  EXPECT_EQ(first(Template("smollm2"), "Be brief."),
            "[<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n");
  EXPECT_EQ(first(Template("smollm2", "Mine."), ""),
            "[<|im_start|>system\nMine.<|im_end|>\n<|im_start|>user\n");
  EXPECT_EQ(first(Template("smollm2", ""), ""), "[<|im_start|>user\n");
  EXPECT_EQ(first(Template("chatml", "Mine."), "Row's."),
            "[<|im_start|>system\nRow's.<|im_end|>\n<|im_start|>user\n");
}

// Slots are tokenized separately: `default` has three slots in a user message, "Hi" + eos +
// "\nAssistant:", so no token may join two of them.
TEST(ChatTemplateTest, SlotsAreTokenisedAlone) {
  const ChatTemplate chat = Template("default");
  const Tokenizer& t = chat.tokenizer();
  const EncodedTurn turn =
      chat.EncodeTurns({.messages = {{Role::kUser, "Hi "}, {Role::kAssistant, " x "}}})->front();
  EXPECT_EQ(turn.prompt, Join({t.Encode("Human: Hi "), {2}, t.Encode("\nAssistant:")}));
  EXPECT_EQ(turn.response, Join({t.Encode(" x "), {2}, t.Encode("\n")}));
  const ChatTemplate bos =
      *ChatTemplate::Create({.name = "own",
                             .prefix = {{Slot::Kind::kBos, ""}},
                             .user = {{Slot::Kind::kText, "{{idx}}:{{content}}"}},
                             .assistant = {{Slot::Kind::kText, "{{content}}"}}},
                            MakeTokenizer());
  const std::vector<EncodedTurn> turns = *bos.EncodeTurns(kTwoTurns);
  EXPECT_EQ(turns[0].prompt, Join({{1}, t.Encode("0:Hi")}));
  EXPECT_EQ(turns[1].prompt, t.Encode("1:And?"));  // the prefix occurs once
}

TEST(ChatTemplateTest, PlaceholdersInATextStay) {
  const auto text = [](const std::string& user, const std::string& assistant) {
    return TextOf(Template("chatml"),
                  {.messages = {{Role::kUser, user}, {Role::kAssistant, assistant}}});
  };
  EXPECT_THAT(
      text("{{content}} {{system}}", "{{content}} {{idx}}"),
      AllOf(HasSubstr("user\n{{content}} {{system}}<"), HasSubstr("[{{content}} {{idx}}<")));
  EXPECT_THAT(
      text("{{idx}} {{idx}}", ""),
      HasSubstr("user\n0 {{idx}}<"));  // a user's first {{idx}} is replaced, as in LLaMA-Factory
}

TEST(ChatTemplateTest, PromptsForAnAnswer) {
  const ChatTemplate chat = Template("smollm2");
  const Conversation asked = {
      .system = "Be.",
      .messages = {{Role::kUser, "Hi"}, {Role::kAssistant, "Hello"}, {Role::kUser, "And?"}}};
  EXPECT_EQ(chat.tokenizer().Decode(*chat.EncodePrompt(asked)),
            "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
            "assistant\nHello<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_"
            "start|>assistant\n");
  EXPECT_THROW(chat.EncodePrompt(kTwoTurns).IgnoreError(), c10::Error);
  EXPECT_THROW(chat.EncodeTurns(asked).IgnoreError(), c10::Error);
  EXPECT_THROW(chat.EncodePrompt({.messages = {{Role::kAssistant, "Hi"}}}).IgnoreError(),
               c10::Error);
}

// Between a generated answer and the next one: the ids that a whole conversation has there.
TEST(ChatTemplateTest, WhatFollowsAGeneratedAnswer) {
  for (const char* name : {"chatml", "smollm2", "qwen3", "llama3", "default", "llama2", "glm4"}) {
    SCOPED_TRACE(name);
    const ChatTemplate chat = Template(name);
    for (const Role role : {Role::kObservation, Role::kUser}) {
      const Conversation asked = {.messages = {{Role::kUser, "Hi"}, {Role::kAssistant, "Go 1"}}};
      Conversation more = asked;
      more.messages.push_back({role, "4"});
      const Ids whole = *chat.EncodePrompt(more);
      const EncodedTurn turn = (*chat.EncodeTurns(asked))[0];
      // The model generates the answer up to its stop id, if the template has one there.
      Ids answer = turn.response;
      const Ids stops = chat.stop_ids();
      const auto stop = std::find_if(answer.begin(), answer.end(), [&](int32_t id) {
        return std::find(stops.begin(), stops.end(), id) != stops.end();
      });
      if (stop != answer.end()) answer.erase(stop + 1, answer.end());
      if (chat.spec().efficient_eos) answer.push_back(chat.eos());
      const bool thinks = chat.spec().kind == TemplateSpec::Kind::kReasoning;
      const Ids next = *chat.EncodeNext({role, "4"}, answer.back());
      // With reasoning, a conversation drops that of earlier answers: the beginning differs.
      if (chat.spec().efficient_eos || thinks) {
        ASSERT_GE(whole.size(), next.size());
        EXPECT_EQ(Ids(whole.end() - static_cast<int64_t>(next.size()), whole.end()), next);
      } else {
        EXPECT_EQ(Join({turn.prompt, answer, next}), whole);
      }
      // An answer that a stop text ended: the template's own end is given too.
      if (stop == turn.response.end() || thinks || chat.spec().efficient_eos) continue;
      answer.pop_back();
      EXPECT_EQ(Join({turn.prompt, answer, *chat.EncodeNext({role, "4"}, answer.back())}), whole);
    }
  }
  EXPECT_THROW(Template("chatml").EncodeNext({Role::kAssistant, "4"}, 0).IgnoreError(), c10::Error);
}

TEST(ChatTemplateTest, WhatEndsATurn) {
  EXPECT_EQ(Template("chatml").eos(), 2);
  EXPECT_THAT(Template("chatml").stop_ids(), ElementsAre(2, 1));
  EXPECT_THAT(Template("smollm2").stop_ids(), ElementsAre(2));
  EXPECT_EQ(Template("chatml").pad(), 0);
  const auto tokenizer = MakeTokenizer("smollm2", R"({"eos_token": "<|endoftext|>"})");
  const ChatTemplate replaced =
      *ChatTemplate::Create(NamedTemplate("chatml"), tokenizer);  // eos becomes the first stop word
  EXPECT_EQ(replaced.eos(), 2);
  EXPECT_EQ(replaced.pad(), 2);  // no pad token of its own
  const ChatTemplate kept = *ChatTemplate::Create(
      NamedTemplate("smollm2"), tokenizer);  // eos stays, and the stop word is added too
  EXPECT_EQ(kept.eos(), 0);
  EXPECT_THAT(kept.stop_ids(), ElementsAre(0, 2));
  EXPECT_EQ(ChatTemplate::Create(NamedTemplate("default"), MakeTokenizer("smollm2", ""))->eos(),
            0);  // none at all: <|endoftext|>
}

// Stop words that the vocabulary lacks are added after its tokens, the eos first. The tokenizer
// passed in is unchanged.
TEST(ChatTemplateTest, StopWordsAreAdded) {
  const auto given = MakeTokenizer("gpt2", R"({"eos_token": "<|endoftext|>"})");
  const auto size = static_cast<int32_t>(given->vocab_size());
  const ChatTemplate chat = *ChatTemplate::Create(NamedTemplate("chatml"), given);
  EXPECT_EQ(chat.eos(), size);
  EXPECT_THAT(chat.stop_ids(), ElementsAre(size, size + 1));
  EXPECT_EQ(chat.pad(), size);
  EXPECT_THAT(chat.tokenizer().Encode("a<|im_end|><|im_start|>"),
              ElementsAre(given->Encode("a")[0], size, size + 1));
  EXPECT_EQ(chat.tokenizer().Decode({size, size + 1}), "<|im_end|><|im_start|>");
  EXPECT_EQ(chat.tokenizer().Decode({size, size + 1}, /*skip_special=*/true), "");
  EXPECT_EQ(given->vocab_size(), size);
  EXPECT_EQ(given->IdOf("<|im_end|>"), std::nullopt);
  const ChatTemplate again =
      *ChatTemplate::Create(NamedTemplate("chatml"), chat.shared_tokenizer());
  EXPECT_EQ(again.tokenizer().vocab_size(), size + 2);
  EXPECT_EQ(again.stop_ids(), chat.stop_ids());
  EXPECT_EQ(ChatTemplate::Create(NamedTemplate("default"), MakeTokenizer("llama3", ""))->eos(),
            MakeTokenizer("llama3", "")->vocab_size())
      << "<|endoftext|>";
}

TEST(ChatTemplateTest, AMissingToken) {
  const TemplateSpec named = {.name = "own",
                              .user = {{Slot::Kind::kToken, "<none>"}},
                              .assistant = {{Slot::Kind::kText, "{{content}}"}}};
  EXPECT_THAT(
      *ChatTemplate::Create(named, MakeTokenizer("smollm2", R"({"unk_token": "<|im_start|>"})"))
           ->EncodePrompt({.messages = {{Role::kUser, ""}}}),
      ElementsAre(1));
  EXPECT_THAT(
      ChatTemplate::Create(named, MakeTokenizer()).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("template 'own': needs the token '<none>', which the tokenizer lacks")));
}

TEST(ChatTemplateTest, RefusesWhatItCannotSay) {
  EXPECT_THROW(ChatTemplate::Create(NamedTemplate("default"), nullptr).IgnoreError(), c10::Error);
}

TEST(ChatTemplateTest, NamesWhatIsWrongWithTools) {
  const ChatTemplate chat = Template("chatml");
  const auto told = [&](const std::string& tools, const std::string& call) {
    return chat
        .EncodeTurns(
            {.tools = tools, .messages = {{Role::kUser, "Hi"}, {Role::kFunctionCall, call}}})
        .status();
  };
  const std::string call = R"({"name": "f", "arguments": {}})",
                    tools = R"([{"name": "f", "parameters": {"properties": {}}}])";
  const auto invalid = [](const char* words) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  EXPECT_OK(told(tools, call));
  EXPECT_THAT(told("{", call), invalid("tools: not valid JSON: "));
  EXPECT_THAT(told("{}", call), invalid("tools: must be an array of tools, got object"));
  EXPECT_THAT(told("[3]", call), invalid("tools: a tool must be an object with a 'name', got 3"));
  EXPECT_THAT(told(R"([{"name": "f"}])", call),
              invalid("tools: tool 'f': 'parameters' must be an object, got null"));
  EXPECT_THAT(told("", "f(3)"), invalid("message 1: a function call: not valid JSON: "));
  EXPECT_THAT(told("", R"([{"name": "f"}])"),
              invalid("message 1: a function call: a call must be an object with 'name' and "
                      "'arguments', got {\"name\": \"f\"}"));
}

}  // namespace
}  // namespace moonring::data
