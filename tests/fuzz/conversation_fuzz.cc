// Fuzzes a row of a data set: it is converted by each format for each stage, and the result is
// encoded by templates with tools and reasoning.
#include <cstdint>
#include <string>

#include "data/description/stage.h"
#include "data/formats/alpaca.h"
#include "data/formats/openai.h"
#include "data/formats/sharegpt.h"
#include "data/text/chat_template.h"
#include "data/text/json/python_json.h"
#include "tests/fuzz/small_tokenizer.h"

namespace {

using namespace moonring::data;

constexpr const char* kToolFormats[] = {"default", "gemma4",  "glm4",    "glm4_moe", "lfm2",
                                        "ling",    "llama3",  "mistral", "minimax1", "minimax2",
                                        "qwen",    "qwen3_5", "seed_oss"};

std::vector<ChatTemplate> Templates() {
  const auto tokenizer = moonring::fuzz::SmallTokenizer();
  std::vector<ChatTemplate> templates;
  for (const char* tool_format : kToolFormats) {
    TemplateSpec spec{.name = tool_format,
                      .kind = TemplateSpec::Kind::kReasoning,
                      .tool_format = tool_format,
                      .date = "26 Jul 2024"};
    spec.system = spec.user = spec.assistant = spec.function_call =
        spec.observation = {{Slot::Kind::kText, "<{{content}}>"}};
    auto made = ChatTemplate::Create(std::move(spec), tokenizer);
    if (!made.ok()) __builtin_trap();
    templates.push_back(*std::move(made));
  }
  return templates;
}

void Encode(const ChatTemplate& chat, const ConvertedRow& row, Stage stage) {
  if (!row.skipped.empty() || stage == Stage::kPretraining) return;
  if (stage == Stage::kSupervised) {
    (void)chat.EncodeTurns(row.conversation);
    return;
  }
  for (const Message& answer : row.answers) (void)chat.EncodeAnswer(row.conversation, answer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<ChatTemplate> templates = Templates();
  const auto row = ParseOrderedJson({reinterpret_cast<const char*>(data), size});
  if (!row.ok()) return 0;
  DatasetDescription description{.columns = {.named = true,
                                             .prompt = "instruction",
                                             .query = "input",
                                             .response = "output",
                                             .messages = "conversations",
                                             .history = "history",
                                             .system = "system",
                                             .tools = "tools",
                                             .chosen = "chosen",
                                             .rejected = "rejected",
                                             .kto_tag = "kto_tag"}};
  for (const Stage stage :
       {Stage::kPretraining, Stage::kSupervised, Stage::kPairs, Stage::kFeedback}) {
    description.ranking = stage == Stage::kPairs;
    for (const auto convert : {&ConvertAlpaca, &ConvertSharegpt, &ConvertOpenai}) {
      const auto converted = convert(*row, description, stage);
      if (!converted.ok()) continue;
      for (const ChatTemplate& chat : templates) Encode(chat, *converted, stage);
    }
  }
  return 0;
}
