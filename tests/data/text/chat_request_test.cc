// Messages and tools of OpenAI's form: what templates get of them, and refusals with the field's
// path.
#include "data/text/chat_request.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<ChatRequest> Read(const std::string& text) {
  const auto request = ParseOrderedJson(text);
  if (!request.ok()) return request.status();
  return ReadChatRequest(*request);
}

absl::StatusOr<Conversation> Convert(const std::string& text) {
  const auto request = Read(text);
  if (!request.ok()) return request.status();
  return ConversationOfChat(*request);
}

TEST(ChatRequest, ContentsBecomeOneText) {
  ASSERT_OK_AND_ASSIGN(
      const ChatRequest request,
      Read(R"({"messages": [{"role": "developer", "content": "Be kind", "name": "me"},
               {"role": "user", "content": [{"type": "text", "text": "a"},
                                            {"type": "text", "text": "b"}]},
               {"role": "assistant", "content": null, "refusal": null, "reasoning": "hm",
                "tool_calls": [{"id": "1", "type": "function",
                                "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2.0}"}}]},
               {"role": "tool", "tool_call_id": "1", "content": "r"}]})"));
  EXPECT_EQ(request.messages.dump(),
            R"([{"role":"system","content":"Be kind","name":"me"},)"
            R"({"role":"user","content":"a\nb"},)"
            R"({"role":"assistant","content":"","reasoning_content":"hm","tool_calls":)"
            R"([{"type":"function","function":{"name":"f","arguments":{"b":1,"a":2.0}},)"
            R"("id":"1"}]},)"
            R"({"role":"tool","content":"r","tool_call_id":"1"}])");
  EXPECT_TRUE(request.tools.is_null());
}

TEST(ChatRequest, ToolsKeepTheOrderOfTheirKeys) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","z":{"y":1,"x":2.0},"a":[]}}])";
  const std::string body = R"({"messages": [{"role": "user", "content": "x"}], "tools": )" + tools;
  ASSERT_OK_AND_ASSIGN(const ChatRequest request, Read(body + "}"));
  EXPECT_EQ(request.tools.dump(), tools);
  ASSERT_OK_AND_ASSIGN(const ChatRequest none, Read(body + R"(, "tool_choice": "none"})"));
  EXPECT_TRUE(none.tools.is_null());
  ASSERT_OK_AND_ASSIGN(const Conversation conversation, Convert(body + "}"));
  ASSERT_OK_AND_ASSIGN(const OrderedJson kept, ParseOrderedJson(conversation.tools));
  EXPECT_EQ(kept.dump(), tools);
}

TEST(ChatRequest, ForNamedTemplatesItIsAConversation) {
  ASSERT_OK_AND_ASSIGN(
      const Conversation conversation,
      Convert(R"({"messages": [{"role": "system", "content": "s"},
              {"role": "system", "content": "t"}, {"role": "user", "content": "q"},
              {"role": "assistant", "content": "said", "reasoning_content": "hm", "tool_calls":
                [{"function": {"name": "f", "arguments": {"a": 1}}},
                 {"function": {"name": "g", "arguments": "{}"}}]},
              {"role": "tool", "content": "r1"}, {"role": "tool", "content": "r2"}]})"));
  EXPECT_EQ(conversation.system, "s\nt");
  ASSERT_EQ(conversation.messages.size(), 3);
  EXPECT_EQ(conversation.messages[0].content, "q");
  const Message& call = conversation.messages[1];
  EXPECT_EQ(call.role, Role::kFunctionCall);
  EXPECT_EQ(call.said, "said");
  EXPECT_EQ(call.thought, "hm");
  EXPECT_EQ(call.content,
            R"([{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])");
  EXPECT_EQ(conversation.messages[2].role, Role::kObservation);
  EXPECT_EQ(conversation.messages[2].content, "r1\n</tool_response>\n<tool_response>\nr2");
}

TEST(ChatRequest, NamedTemplatesNeedTurns) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])",
       "messages[1].role: expected assistant: messages take turns"},
      {R"([{"role": "assistant", "content": "a"}])", "messages[0].role: expected user or tool"},
      {R"([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])",
       "messages[1].role: expected system messages before all others"},
      {R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])",
       "messages: expected the user's or a tool's message as the last one"},
      {R"([{"role": "system", "content": "a"}])", "as the last one"},
  };
  for (const auto& [messages, message] : cases) {
    EXPECT_THAT(Convert(std::string(R"({"messages": )") + messages + "}").status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(ChatRequest, RefusalsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "messages: expected a list of at least one message, got null"},
      {R"({"messages": {}})", "messages: expected a list"},
      {R"({"messages": ["x"]})", "messages[0]: expected a message"},
      {R"({"messages": [{"content": "x"}]})", "messages[0].role: expected system, developer, user"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content: expected a text or a list"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "got 5"},
      {R"({"messages": [{"role": "user", "content": ["x"]}]})", "messages[0].content[0]: expected"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "messages[0].content[0].text: expected a text"},
      {R"({"messages": [{"role": "user", "content": "x", "tool_calls": []}]})",
       "messages[0]: unknown field 'tool_calls'"},
      {R"({"messages": [{"role": "user", "content": "x", "nmae": "y"}]})", "did you mean 'name'"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})",
       "messages[0].tool_calls[0].function: expected an object"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f",
           "arguments": "[1]"}}]}]})",
       "messages[0].tool_calls[0].function.arguments: expected the JSON of an object"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]})",
       "tools[0].function.name: expected a text"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(Read(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_THAT(
      Read(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})").status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("messages[0].content[0].type")));
}

}  // namespace
}  // namespace moonring::data
