#ifndef MOONRING_TESTS_DATA_TEXT_NAMED_TEMPLATES_H_
#define MOONRING_TESTS_DATA_TEXT_NAMED_TEMPLATES_H_

// Templates of lua/moonring/templates for tests that do not run Lua: chatml, smollm2, and
// `default`, which is returned for any other name.

#include <string>
#include <vector>

#include "data/text/template_spec.h"

namespace moonring::testing {

inline data::TemplateSpec NamedTemplate(const std::string& name) {
  const auto text = [](const char* words) { return data::Slot{data::Slot::Kind::kText, words}; };
  const data::Slot eos = {data::Slot::Kind::kEos, ""};
  if (name != "chatml" && name != "smollm2") {
    const std::vector<data::Slot> user = {text("Human: {{content}}"), eos, text("\nAssistant:")},
                                  assistant = {text("{{content}}"), eos, text("\n")};
    return {.name = "default",
            .system = {text("System: {{content}}"), eos, text("\n")},
            .user = user,
            .assistant = assistant,
            .function_call = assistant,
            .observation = user};
  }
  const bool chatml = name == "chatml";
  const char* user = "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n";
  return {.name = name,
          .system = {text("<|im_start|>system\n{{content}}<|im_end|>\n")},
          .user = {text(user)},
          .assistant = {text("{{content}}<|im_end|>\n")},
          .function_call = {text("{{content}}<|im_end|>\n")},
          .observation = {text(
              chatml ? "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n" : user)},
          .default_system =
              chatml ? "" : "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
          .stop_words = chatml ? std::vector<std::string>{"<|im_end|>", "<|im_start|>"}
                               : std::vector<std::string>{"<|im_end|>"},
          .replace_eos = chatml};
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_DATA_TEXT_NAMED_TEMPLATES_H_
