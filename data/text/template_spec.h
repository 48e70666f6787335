// The data of a chat template (data/text/chat_template.h describes how it is used). Named templates
// are tables in lua/moonring/templates.
#ifndef MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_
#define MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_

#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// Text, the tokenizer's bos or eos (empty if it has none), or one token, given by its text in the
// vocabulary.
struct Slot {
  enum class Kind { kText, kBos, kEos, kToken } kind = Kind::kText;
  std::string text;
};

struct TemplateSpec {
  // - kPlain: the system text has its own slots, before the first message.
  // - kSystemInUser: the system text, in the first of its slots, is prepended to the first user
  //   message.
  // - kReasoning: as kPlain, and answers begin with reasoning.
  enum class Kind { kPlain, kSystemInUser, kReasoning };

  std::string name;
  Kind kind = Kind::kPlain;
  std::vector<Slot> prefix, system, user, assistant, function_call, observation;
  // if not empty: a text in which {{content}} is replaced by the tools' JSON, in place of the tool
  // format's description
  std::string tools;
  std::string tool_format = "default";  // data/text/tools: how tools and calls are written
  std::string date;  // today's date for formats that need it; empty: from the clock
  std::string default_system;
  std::vector<std::string> stop_words;
  std::string thought_begin = "<think>\n", thought_end = "\n</think>\n\n";
  std::string empty_thought = "<think>\n\n</think>\n\n";
  // How the model's own template writes reasoning from a separate field, if it does: between
  // written_begin and written_end, followed by before_text if a text follows. thought_trim: what is
  // trimmed at the ends of the reasoning.
  bool writes_thoughts = false;
  enum class Trim { kNothing, kNewlines, kSpaces };
  std::string written_begin = "<think>\n", written_end = "\n</think>\n\n", before_text;
  Trim thought_trim = Trim::kNewlines;
  std::string tool_call_begin = "<tool_call>", tool_call_end = "</tool_call>";
  bool replace_eos = false;
  bool efficient_eos =
      false;  // one eos separates turns; the example builder adds it, no slot has it

  // For kReasoning. true: empty reasoning before an answer that has none is trained. false:
  // reasoning is removed from answers, and the empty reasoning is part of the prompt. nullopt:
  // reasoning is kept, and empty reasoning is part of the prompt where there is none.
  std::optional<bool> enable_thinking = true;
  // kReasoning: keep the reasoning of earlier answers where otherwise only the last answer keeps it
  bool preserve_thinking = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_
