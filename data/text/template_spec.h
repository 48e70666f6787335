// What a chat template is made of (data/text/chat_template.h says what is done with it). The
// named ones are tables in lua/moonring/templates.
#ifndef MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_
#define MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_

#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// Text, the tokenizer's bos or eos (nothing where it has none), or one token by its text in the
// vocabulary.
struct Slot {
  enum class Kind { kText, kBos, kEos, kToken } kind = Kind::kText;
  std::string text;
};

struct TemplateSpec {
  // kPlain         the system text in slots of its own, before the first message
  // kSystemInUser  the system text, in the first of its slots, at the beginning of the first user's
  // text kReasoning     as kPlain, and answers begin with a thought
  enum class Kind { kPlain, kSystemInUser, kReasoning };

  std::string name;
  Kind kind = Kind::kPlain;
  std::vector<Slot> prefix, system, user, assistant, function_call, observation;
  std::string tools;  // where not empty: a text with {{content}} for the tools as they are given,
                      // in place of the format's words
  std::string tool_format = "default";  // data/text/tools: how tools are described and called
  std::string date;                     // today's, for a format that says it; empty: the clock's
  std::string default_system;
  std::vector<std::string> stop_words;
  std::string thought_begin = "<think>\n", thought_end = "\n</think>\n\n";
  std::string empty_thought = "<think>\n\n</think>\n\n";
  // How the model's own template writes a thought that comes in a field of its own, where it does:
  // between these, and the third before a text that follows; its ends trimmed.
  bool writes_thoughts = false;
  enum class Trim { kNothing, kNewlines, kSpaces };
  std::string written_begin = "<think>\n", written_end = "\n</think>\n\n", before_text;
  Trim thought_trim = Trim::kNewlines;
  std::string tool_call_begin = "<tool_call>", tool_call_end = "</tool_call>";
  bool replace_eos = false;
  bool efficient_eos =
      false;  // turns are separated by one eos that no slot holds; the builder of examples puts it

  // kReasoning: true: an answer without a thought learns an empty one. false: thoughts are taken
  // out of answers, and an empty one is given, not learnt. None: thoughts stay, and an empty one is
  // given where there is none.
  std::optional<bool> enable_thinking = true;
  bool preserve_thinking = false;  // kReasoning: the thoughts of earlier answers stay where else
                                   // only the last one's does
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TEMPLATE_SPEC_H_
