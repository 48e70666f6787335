// Chat templates: encode conversations to token ids, turn by turn, like LLaMA-Factory 0.9.5.
//
// A template consists of lists of slots, each a text with placeholders or a special token
// (data/text/template_spec.h): the prefix, the system text, and one list for each kind of message.
// Each slot is tokenized separately and the ids are concatenated. bos and eos slots are one id
// each, or none if the tokenizer lacks the token. In a slot, the first {{content}} is replaced by
// the text; then, for a user message, the first {{idx}} (which may come from the user's text) is
// replaced by the turn's number. An empty system text is replaced by the template's default. If
// that is empty too and there are no tools, the system slots are omitted. Special tokens written in
// a text are parsed.
//
// Tools are described after the system text, in the template's tool format (data/text/tools). A
// function call's content contains JSON, {"name", "arguments"} or a list of them: all of the
// content, or the substring between the template's tool call tags, or what is left without the
// reasoning. The tool format writes these calls in its own syntax.
//
// Reasoning in a separate field (Message::thought) is written as in the model's own template, if
// that has reasoning, and is then treated like reasoning in the text. If an answer has both, they
// must be equal. Text next to a function call is written before the call, as in the model's own
// template.
//
// With a reasoning template, answers begin with reasoning between two tags. When all turns of a
// conversation are trained together, each keeps its reasoning, unless only the last turn is trained
// (then only that keeps it). Before a single answer, the reasoning of earlier answers is removed.
// Empty reasoning is inserted before an answer that has none; enable_thinking decides whether it is
// trained or part of the prompt.
//
// A template can change which token ends a turn: with replace_eos, its first stop word is the eos.
// If the tokenizer has no pad token, eos is used. The tokenizer passed in is not changed; training
// and decoding must use tokenizer(), eos(), pad() and stop_ids() of this class. In tokenizer(), the
// stop words are special tokens. Those that the vocabulary lacks are added
// (Tokenizer::WithStopWords), and the embedding may then have to be resized. A slot's token that
// the vocabulary lacks is encoded as the unknown token, or is an error if there is none.
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
  // default_system, if set (even to ""), replaces the template's default.
  static absl::StatusOr<ChatTemplate> Create(
      TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer,
      std::optional<std::string> default_system = std::nullopt);

  // Encodes each pair of messages as one turn, without the eos tokens of efficient_eos. Prompts and
  // answers must alternate and the last message must be an answer (checked). With last_turn_alone,
  // only the last turn is trained. INVALID_ARGUMENT for malformed tools or function calls.
  absl::StatusOr<std::vector<EncodedTurn>> EncodeTurns(const Conversation& conversation,
                                                       bool last_turn_alone = false) const;

  // Encodes all messages before an answer as the prompt, and the answer as the response. Prompts
  // and answers must alternate, and the conversation must end with a prompt. Errors as in
  // EncodeTurns.
  absl::StatusOr<EncodedTurn> EncodeAnswer(const Conversation& conversation,
                                           const Message& answer) const;

  // The prompt ids for generating an answer to the conversation.
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const Conversation& conversation) const;

  // The ids between an answer that a model has generated, whose last id is `last`, and its next
  // answer: the end of the answer's turn, unless `last` is a stop id, and the message `prompt` (a
  // tool result, or a user's message). EncodePrompt of the whole conversation has the same ids
  // there. INVALID_ARGUMENT for a user's message if the template numbers turns.
  absl::StatusOr<std::vector<int32_t>> EncodeNext(const Message& prompt, int32_t last) const;

  // Whether text next to a function call is written.
  bool writes_text_beside_calls() const { return tool_format_.after != nullptr; }

  const TemplateSpec& spec() const { return spec_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::shared_ptr<const Tokenizer> shared_tokenizer() const { return tokenizer_; }
  int32_t eos() const { return eos_; }
  int32_t pad() const { return pad_; }
  const std::vector<int32_t>& stop_ids() const {
    return stop_ids_;
  }  // eos and the stop words, without duplicates

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

// NOT_FOUND, "tool_format: no 'NAME' ..", if there is no such tool format.
absl::Status CheckToolFormat(absl::string_view name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CHAT_TEMPLATE_H_
