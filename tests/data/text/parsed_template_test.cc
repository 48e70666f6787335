// Slots derived from a model's own chat template: slots and ids equal LLaMA-Factory's, and whole
// prompts equal Transformers' apply_chat_template.

#include "data/text/parsed_template.h"

#include <memory>
#include <string>
#include <vector>

#include "data/text/chat_template.h"
#include "data/text/model_template.h"
#include "data/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ReadRunfile;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

struct Carried {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ModelTemplate> found;
};

absl::StatusOr<Carried> Carry(const std::string& tokenizer, const std::string& config,
                              const std::string& jinja = "") {
  const std::string contents =
      ReadRunfile("tests/golden/tokenizer/tiny/" + tokenizer + ".tokenizer.json");
  auto made = Tokenizer::FromJson(contents, config, "tokenizer.json");
  if (!made.ok()) return made.status();
  auto found = ModelTemplate::Find({jinja, config, contents, "model"}, *made);
  if (!found.ok()) return found.status();
  return Carried{*std::move(made), *std::move(found)};
}

OrderedJson Messages(const OrderedJson& conversation, size_t count) {
  OrderedJson messages = OrderedJson::array();
  for (size_t i = 0; i < count; ++i)
    messages.push_back({{"role", conversation[i][0]}, {"content", conversation[i][1]}});
  return messages;
}

Conversation AsConversation(const OrderedJson& texts) {
  Conversation conversation;
  for (const OrderedJson& text : texts) {
    const std::string role = text[0].get<std::string>(), content = text[1].get<std::string>();
    if (role == "system") {
      conversation.system = content;
    } else {
      conversation.messages.push_back({role == "user" ? Role::kUser : Role::kAssistant, content});
    }
  }
  return conversation;
}

std::string Only(const std::vector<Slot>& slots) { return slots.empty() ? "" : slots.front().text; }

TEST(ParsedTemplateTest, RendersAsLlamaFactory) {
  const OrderedJson golden = OrderedJson::parse(ReadRunfile("tests/golden/jinja/parsed.json"));
  int parsed = 0, refused = 0;
  for (const OrderedJson& each : golden["cases"]) {
    SCOPED_TRACE(each["name"].get<std::string>());
    ASSERT_OK_AND_ASSIGN(const Carried carried,
                         Carry(each["tokenizer"].get<std::string>(),
                               each["config"].get<std::string>(), each.value("jinja", "")));
    ASSERT_NE(carried.found, nullptr);
    for (size_t i = 0; i < golden["conversations"].size(); ++i) {
      const OrderedJson& conversation = golden["conversations"][i];
      const auto prompt =
          carried.found->Encode(Messages(conversation, conversation.size() - 1), true);
      EXPECT_EQ(prompt.ok() ? OrderedJson(*prompt) : OrderedJson(), each["prompts"][i]);
    }
    EXPECT_EQ(carried.found->is_one_of_several(), each.contains("empty"));
    if (each.contains("empty")) continue;
    const absl::StatusOr<TemplateSpec> spec = ParseTemplate(*carried.found);
    if (each.contains("error")) {
      EXPECT_THAT(spec, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
      ++refused;
      continue;
    }
    ASSERT_OK(spec);
    EXPECT_EQ(Only(spec->prefix), each["prefix"].get<std::string>());
    EXPECT_EQ(Only(spec->system), each["system"].get<std::string>());
    EXPECT_EQ(Only(spec->user), each["user"].get<std::string>());
    EXPECT_EQ(Only(spec->assistant), each["assistant"].get<std::string>());
    EXPECT_EQ(spec->default_system, each["default_system"].get<std::string>());
    EXPECT_EQ(spec->kind == TemplateSpec::Kind::kReasoning, each["reasoning"].get<bool>());
    ASSERT_OK_AND_ASSIGN(const ChatTemplate chat, ChatTemplate::Create(*spec, carried.tokenizer));
    for (size_t i = 0; i < golden["conversations"].size(); ++i) {
      ASSERT_OK_AND_ASSIGN(const std::vector<EncodedTurn> turns,
                           chat.EncodeTurns(AsConversation(golden["conversations"][i])));
      OrderedJson ids = OrderedJson::array();
      for (const EncodedTurn& turn : turns) ids.push_back({turn.prompt, turn.response});
      EXPECT_EQ(ids, each["turns"][i]);
    }
    ++parsed;
  }
  EXPECT_GE(parsed, 25);
  EXPECT_GE(refused, 10);
}

TEST(ParsedTemplateTest, ErrorsSayWhy) {
  const auto refusal = [](const std::string& jinja) -> absl::Status {
    const auto carried = Carry("smollm2", "{}", jinja);
    return carried.ok() ? ParseTemplate(*carried->found).status() : carried.status();
  };
  EXPECT_THAT(
      refusal("\n{{ raise_exception('No system') }}"),
      StatusIs(absl::StatusCode::kInvalidArgument, "model/chat_template.jinja:2: No system"));
  EXPECT_THAT(refusal("{% if %}"), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("model/chat_template.jinja:1: ")));
  EXPECT_THAT(refusal("{% include 'x' %}"),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("the tag 'include'")));
  EXPECT_THAT(refusal("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the role 'system'")));
}

TEST(ParsedTemplateTest, WhereAModelCarriesNone) {
  for (const char* config : {"{}", "", R"({"chat_template": null})",
                             R"({"chat_template": [{"name": "tool_use", "template": "x"}]})"}) {
    ASSERT_OK_AND_ASSIGN(const Carried carried, Carry("smollm2", config));
    EXPECT_EQ(carried.found, nullptr) << config;
  }
  EXPECT_THAT(Carry("smollm2", R"({"chat_template": 3})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must be a text or a list of templates, got number")));
}

}  // namespace
}  // namespace moonring::data
