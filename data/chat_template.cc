#include "data/chat_template.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/nearest_name.h"
#include "comm/status_macros.h"

namespace moonring::data {
namespace {

Slot Text(absl::string_view text) { return {Slot::Kind::kText, std::string(text)}; }
Slot Eos() { return {Slot::Kind::kEos, ""}; }

std::vector<TemplateSpec> Templates() {
  const std::vector<Slot> chatml_system = {Text("<|im_start|>system\n{{content}}<|im_end|>\n")};
  const std::vector<Slot> chatml_user = {Text("<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n")};
  const std::vector<Slot> chatml_assistant = {Text("{{content}}<|im_end|>\n")};
  return {
      {.name = "chatml",
       .system = chatml_system,
       .user = chatml_user,
       .assistant = chatml_assistant,
       .stop_words = {"<|im_end|>", "<|im_start|>"},
       .replace_eos = true},
      {.name = "default",
       .system = {Text("System: {{content}}"), Eos(), Text("\n")},
       .user = {Text("Human: {{content}}"), Eos(), Text("\nAssistant:")},
       .assistant = {Text("{{content}}"), Eos(), Text("\n")}},
      {.name = "smollm2",
       .system = chatml_system,
       .user = chatml_user,
       .assistant = chatml_assistant,
       .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
       .stop_words = {"<|im_end|>"}},
  };
}

void ReplaceFirst(std::string& text, absl::string_view what, absl::string_view with) {
  const size_t at = text.find(what.data(), 0, what.size());
  if (at != std::string::npos) text.replace(at, what.size(), with.data(), with.size());
}

// The id of a word that the vocabulary holds as one unsplit token.
absl::StatusOr<int32_t> WholeToken(const Tokenizer& tokenizer, const std::string& word) {
  const std::optional<int32_t> id = tokenizer.IdOf(word);
  if (!id.has_value()) {
    return absl::UnimplementedError(absl::StrCat("needs the token '", word, "', which the tokenizer lacks; not supported yet: adding tokens to a vocabulary"));
  }
  if (tokenizer.Encode(word) != std::vector<int32_t>{*id}) {
    return absl::UnimplementedError(
        absl::StrCat("needs '", word, "' as one token, but the tokenizer splits it: it is not among its added tokens; not supported yet: adding tokens"));
  }
  return *id;
}

}  // namespace

std::vector<std::string> TemplateNames() {
  std::vector<std::string> names;
  for (const TemplateSpec& spec : Templates()) names.push_back(spec.name);
  return names;
}

absl::StatusOr<TemplateSpec> FindTemplate(absl::string_view name) {
  for (TemplateSpec& spec : Templates()) {
    if (spec.name == name) return std::move(spec);
  }
  const std::vector<std::string> names = TemplateNames();
  if (name.empty()) return absl::InvalidArgumentError(absl::StrCat("template: none is named; there are ", absl::StrJoin(names, ", ")));
  return absl::NotFoundError(absl::StrCat("template: no '", name, "'", comm::DidYouMean(name, names), "; there are ", absl::StrJoin(names, ", ")));
}

ChatTemplate::ChatTemplate(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer) : spec_(std::move(spec)), tokenizer_(std::move(tokenizer)) {}

absl::StatusOr<ChatTemplate> ChatTemplate::Create(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer, std::optional<std::string> default_system) {
  TORCH_CHECK(tokenizer != nullptr, "template '", spec.name, "': a tokenizer is wanted, got none");
  ChatTemplate result(std::move(spec), std::move(tokenizer));
  if (default_system.has_value()) result.spec_.default_system = *std::move(default_system);
  std::vector<int32_t> stops;
  for (const std::string& word : result.spec_.stop_words) {
    ASSIGN_OR_RETURN(const int32_t id, WholeToken(*result.tokenizer_, word), "template '", result.spec_.name, "'");
    stops.push_back(id);
  }
  std::optional<int32_t> eos = result.tokenizer_->eos();
  if (result.spec_.replace_eos) {
    TORCH_CHECK(!stops.empty(), "template '", result.spec_.name, "' replaces eos but has no stop word");
    eos = stops.front();
  }
  if (!eos.has_value()) eos = result.tokenizer_->IdOf("<|endoftext|>");
  if (!eos.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("template '", result.spec_.name, "': the tokenizer has no eos token, nor '<|endoftext|>' to stand for it"));
  }
  result.eos_ = *eos;
  result.pad_ = result.tokenizer_->pad().value_or(*eos);
  result.stop_ids_ = {*eos};
  for (const int32_t id : stops) {
    if (!absl::c_linear_search(result.stop_ids_, id)) result.stop_ids_.push_back(id);
  }
  return result;
}

void ChatTemplate::Append(const std::vector<Slot>& slots, absl::string_view content, std::optional<int64_t> turn, std::vector<int32_t>& ids) const {
  for (const Slot& slot : slots) {
    if (slot.kind == Slot::Kind::kEos) {
      ids.push_back(eos_);
    } else if (slot.kind == Slot::Kind::kBos) {
      if (tokenizer_->bos().has_value()) ids.push_back(*tokenizer_->bos());
    } else {
      std::string text = slot.text;
      ReplaceFirst(text, "{{content}}", content);
      if (turn.has_value()) ReplaceFirst(text, "{{idx}}", absl::StrCat(*turn));
      const std::vector<int32_t> encoded = tokenizer_->Encode(text);
      ids.insert(ids.end(), encoded.begin(), encoded.end());
    }
  }
}

std::vector<std::vector<int32_t>> ChatTemplate::EncodeMessages(const Conversation& conversation) const {
  std::vector<std::vector<int32_t>> encoded;
  const std::string& system = conversation.system.empty() ? spec_.default_system : conversation.system;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    TORCH_CHECK((message.role == Role::kUser) == (i % 2 == 0), "messages must alternate, user first; message ", i, " is not the ",
                i % 2 == 0 ? "user's" : "assistant's");
    std::vector<int32_t>& ids = encoded.emplace_back();
    if (i == 0) {
      Append(spec_.prefix, "", std::nullopt, ids);
      if (!system.empty()) Append(spec_.system, system, std::nullopt, ids);
    }
    if (message.role == Role::kUser) {
      Append(spec_.user, message.content, static_cast<int64_t>(i / 2), ids);
    } else {
      Append(spec_.assistant, message.content, std::nullopt, ids);
    }
  }
  return encoded;
}

std::vector<EncodedTurn> ChatTemplate::EncodeTurns(const Conversation& conversation) const {
  std::vector<std::vector<int32_t>> encoded = EncodeMessages(conversation);
  TORCH_CHECK(encoded.size() % 2 == 0, "a conversation to learn from must end with the assistant's message, got ", encoded.size(), " messages");
  std::vector<EncodedTurn> turns;
  for (size_t i = 0; i < encoded.size(); i += 2) turns.push_back({std::move(encoded[i]), std::move(encoded[i + 1])});
  return turns;
}

std::vector<int32_t> ChatTemplate::EncodePrompt(const Conversation& conversation) const {
  TORCH_CHECK(conversation.messages.size() % 2 == 1, "a prompt must end with the user's message, got ", conversation.messages.size(), " messages");
  std::vector<int32_t> ids;
  for (const std::vector<int32_t>& message : EncodeMessages(conversation)) ids.insert(ids.end(), message.begin(), message.end());
  return ids;
}

std::vector<int32_t> ChatTemplate::EncodeAnswer(absl::string_view text) const {
  std::vector<int32_t> ids;
  Append(spec_.assistant, text, std::nullopt, ids);
  return ids;
}

}  // namespace moonring::data
