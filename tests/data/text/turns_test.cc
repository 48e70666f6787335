// Alternating texts as a conversation, and as messages.
#include "data/text/turns.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(TurnsTest, TheUserIsFirstAndLast) {
  ASSERT_OK_AND_ASSIGN(const Conversation conversation, ConversationOf({"a", "b", "c"}, "be kind"));
  EXPECT_EQ(conversation.system, "be kind");
  ASSERT_EQ(conversation.messages.size(), 3);
  const Role roles[] = {Role::kUser, Role::kAssistant, Role::kUser};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(conversation.messages[i].role, roles[i]);
    EXPECT_EQ(conversation.messages[i].content, std::string(1, 'a' + i));
  }
  ASSERT_OK_AND_ASSIGN(const OrderedJson messages, MessagesOf({"a", "b", "c"}, "be kind"));
  EXPECT_EQ(messages.dump(), R"([{"role":"system","content":"be kind"},)"
                             R"({"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                             R"({"role":"user","content":"c"}])");
}

TEST(TurnsTest, WithoutASystemTextThereIsNoMessageOfIt) {
  for (const std::optional<std::string>& system :
       std::vector<std::optional<std::string>>{std::nullopt, ""}) {
    ASSERT_OK_AND_ASSIGN(const OrderedJson messages, MessagesOf({"a"}, system));
    EXPECT_EQ(messages.dump(), R"([{"role":"user","content":"a"}])");
    ASSERT_OK_AND_ASSIGN(const Conversation conversation, ConversationOf({"a"}, system));
    EXPECT_EQ(conversation.system, "") << "the template's own";
  }
}

TEST(TurnsTest, AnAnswerCannotBeLast) {
  for (const std::vector<std::string>& texts :
       std::vector<std::vector<std::string>>{{}, {"a", "b"}}) {
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("odd number of texts, the user's first and last"));
    EXPECT_THAT(ConversationOf(texts, {}).status(), refused);
    EXPECT_THAT(MessagesOf(texts, {}).status(), refused);
  }
}

}  // namespace
}  // namespace moonring::data
