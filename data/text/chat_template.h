// Chat templates: conversations -> token ids, turn by turn, as LLaMA-Factory 0.9.5 encodes them.
//
// A template is lists of slots (data/text/template_spec.h): one before everything, one for the
// system text, and one for each kind of message. Each slot is tokenized alone and the ids are
// joined; bos and eos are one id each, left out where the tokenizer has none. In a slot the first
// {{content}} becomes the text; then, for a user message, the first {{idx}} that now stands there
// (so one that the user wrote) becomes the turn's number. An empty system text becomes the
// template's own; where that is empty too and there are no tools, the system slots are left out.
// Special tokens written in a text are parsed as such.
//
// Tools are described after the system text, as the template's tool format does
// (data/text/tools). The text of a function call is JSON, {"name", "arguments"} or a list of
// them: all of it, or what stands between the words for a tool call, or what is left beside a
// thought; the format writes it anew.
//
// A thought in a field of its own is written as the model's own template does, where that has
// thoughts, and is then as one in the text; two different ones are refused. A text beside a
// function call goes before it, as the model's own template has it.
//
// A reasoning template's answers begin with a thought between two words. Turns learnt at once keep
// their thoughts, unless history is not learnt (then the last alone); before one answer, those of
// earlier answers are taken out. An answer without a thought has an empty one put before it, which
// is learnt or given as enable_thinking says.
//
// A template changes what ends a turn: with replace_eos its first stop word is the eos; where the
// tokenizer has no pad, eos is the pad. The tokenizer that it is given is never changed:
// tokenizer(), eos(), pad() and stop_ids() here are what training and decoding use. In tokenizer()
// the stop words are special tokens; those that the vocabulary lacks are added to it
// (Tokenizer::WithStopWords), and then the embedding may want new rows. A token that a slot names
// and the vocabulary lacks is the unknown one there, and refused where there is none.
#ifndef MOONRING_DATA_TEXT_CHAT_TEMPLATE_H_
#define MOONRING_DATA_TEXT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/conversation.h"
#include "data/text/template_spec.h"
#include "data/text/tokenizer.h"
#include "data/text/tools/tool_format.h"

namespace moonring::data {

class ChatTemplate {
 public:
  // default_system, where given (even ""), stands in place of the template's own.
  static absl::StatusOr<ChatTemplate> Create(
      TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer,
      std::optional<std::string> default_system = std::nullopt);

  // One turn for each pair of messages, without efficient_eos's tokens. Messages are given and
  // answered in turns, an answer last: anything else is the caller's error. INVALID_ARGUMENT: tools
  // or a function call that are not what their format writes.
  absl::StatusOr<std::vector<EncodedTurn>> EncodeTurns(const Conversation& conversation,
                                                       bool last_turn_alone = false) const;

  // What is given before an answer, and the answer: messages in turns, the last one given. Fails
  // likewise.
  absl::StatusOr<EncodedTurn> EncodeAnswer(const Conversation& conversation,
                                           const Message& answer) const;

  // The ids after which the model is to answer.
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const Conversation& conversation) const;

  // Whether a text beside a function call is written.
  bool writes_text_beside_calls() const { return tool_format_.after != nullptr; }

  const TemplateSpec& spec() const { return spec_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::shared_ptr<const Tokenizer> shared_tokenizer() const { return tokenizer_; }
  int32_t eos() const { return eos_; }
  int32_t pad() const { return pad_; }
  const std::vector<int32_t>& stop_ids() const {
    return stop_ids_;
  }  // eos and the stop words, each once

 private:
  ChatTemplate(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer);
  std::optional<int32_t> IdOf(const Slot& slot) const;
  absl::Status CheckTokens() const;
  void Append(const std::vector<Slot>& slots, absl::string_view content,
              std::optional<int64_t> turn, std::vector<int32_t>& ids) const;
  absl::StatusOr<std::vector<std::vector<int32_t>>> EncodeMessages(
      const Conversation& conversation) const;
  absl::StatusOr<std::optional<std::string>> SystemText(const Conversation& conversation) const;
  absl::StatusOr<std::string> CallText(const Message& message) const;
  std::string AnswerText(const Message& message) const;
  std::string ThoughtText(const Message& message) const;
  absl::Status SettleThought(Message& message) const;
  absl::Status SettleThoughts(Conversation& conversation) const;
  std::string WithoutThought(const std::string& content) const;
  void DropThoughts(Conversation& conversation, bool earlier, bool last) const;
  void AddThought(const Message& answer, EncodedTurn& turn) const;

  TemplateSpec spec_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ToolFormat tool_format_ = {};
  int32_t eos_ = 0;
  int32_t pad_ = 0;
  std::vector<int32_t> stop_ids_;
};

// NOT_FOUND, "tool_format: no 'NAME' ..", where there is no such format of tools.
absl::Status CheckToolFormat(absl::string_view name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CHAT_TEMPLATE_H_
