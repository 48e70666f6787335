// Named chat templates: conversations -> token ids, turn by turn, as LLaMA-Factory 0.9.5 encodes them.
//
// A template is lists of slots: one before everything, one for the system text, one a user message, one an assistant's.
// Each slot is tokenised alone and the ids are joined; a token slot (bos, eos) is one id, left out where the tokenizer has none.
// In a slot the first {{content}} becomes the text; then, for a user message, the first {{idx}} that now stands there (so one
// that the user wrote) becomes the turn's number. An empty system text becomes the template's own; where that is empty
// too, the system slots are left out. Special tokens written in a text are parsed as such.
//
// A template changes what ends a turn: with replace_eos its first stop word is the eos; where the tokenizer has no pad, eos
// is the pad. The tokenizer itself is never changed: eos(), pad() and stop_ids() here are what training and decoding use.
// Stop words that the vocabulary lacks are refused (LLaMA-Factory would add them, which needs new rows in the embedding).
#ifndef MOONRING_DATA_CHAT_TEMPLATE_H_
#define MOONRING_DATA_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/conversation.h"
#include "data/tokenizer.h"

namespace moonring::data {

struct Slot {
  enum class Kind { kText, kBos, kEos } kind = Kind::kText;
  std::string text;
};

struct TemplateSpec {
  std::string name;
  std::vector<Slot> prefix, system, user, assistant;
  std::string default_system;
  std::vector<std::string> stop_words;
  bool replace_eos = false;
  bool efficient_eos = false;  // turns are parted by one eos that no slot holds; the builder of examples puts it
};

std::vector<std::string> TemplateNames();

// NOT_FOUND with the nearest name and the list of all; INVALID_ARGUMENT for an empty name.
absl::StatusOr<TemplateSpec> FindTemplate(absl::string_view name);

class ChatTemplate {
 public:
  // default_system, where given (even ""), stands in place of the template's own.
  static absl::StatusOr<ChatTemplate> Create(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer,
                                             std::optional<std::string> default_system = std::nullopt);

  // One turn for each pair of messages, without efficient_eos's tokens. Messages alternate, user first, assistant last: anything else is the caller's error.
  std::vector<EncodedTurn> EncodeTurns(const Conversation& conversation) const;

  // The ids after which the model is to answer: messages alternate, user first and last.
  std::vector<int32_t> EncodePrompt(const Conversation& conversation) const;

  // The ids of an assistant's message, the same wherever it stands but at the very first.
  std::vector<int32_t> EncodeAnswer(absl::string_view text) const;

  const TemplateSpec& spec() const { return spec_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int32_t eos() const { return eos_; }
  int32_t pad() const { return pad_; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }  // eos and the stop words, each once

 private:
  ChatTemplate(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer);
  std::vector<std::vector<int32_t>> EncodeMessages(const Conversation& conversation) const;
  void Append(const std::vector<Slot>& slots, absl::string_view content, std::optional<int64_t> turn, std::vector<int32_t>& ids) const;

  TemplateSpec spec_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int32_t eos_ = 0;
  int32_t pad_ = 0;
  std::vector<int32_t> stop_ids_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_CHAT_TEMPLATE_H_
