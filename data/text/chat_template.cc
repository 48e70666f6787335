#include "data/text/chat_template.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status/status_macros.h"
#include "data/text/json/python_json.h"

namespace moonring::data {
namespace {

void ReplaceFirst(std::string& text, absl::string_view what, absl::string_view with) {
  const size_t at = text.find(what.data(), 0, what.size());
  if (at != std::string::npos) text.replace(at, what.size(), with.data(), with.size());
}

// The tokenizer with the template's stop words added as special tokens.
std::shared_ptr<const Tokenizer> WithStopWords(const TemplateSpec& spec,
                                               const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (!spec.replace_eos) return Tokenizer::WithStopWords(tokenizer, std::nullopt, spec.stop_words);
  TORCH_CHECK(!spec.stop_words.empty(), "template '", spec.name,
              "' replaces eos but has no stop word");
  return Tokenizer::WithStopWords(tokenizer, spec.stop_words.front(),
                                  {spec.stop_words.begin() + 1, spec.stop_words.end()});
}

// The first substring of `text` from `begin` to the next `end`, both included; nullopt if there is
// none.
std::optional<absl::string_view> FindPart(absl::string_view text, absl::string_view begin,
                                          absl::string_view end) {
  const size_t from = text.find(begin);
  if (from == absl::string_view::npos) return std::nullopt;
  const size_t to = text.find(end, from + begin.size());
  if (to == absl::string_view::npos) return std::nullopt;
  return text.substr(from, to + end.size() - from);
}

std::string Without(const std::string& text, absl::string_view part) {
  return absl::StrReplaceAll(text, {{part, ""}});
}

// Trims the text as `trim` specifies: at its beginning and, if `end` is true, at its end. kSpaces
// always trims both sides.
absl::string_view Trimmed(absl::string_view text, TemplateSpec::Trim trim, bool end) {
  if (trim == TemplateSpec::Trim::kSpaces) return absl::StripAsciiWhitespace(text);
  if (trim == TemplateSpec::Trim::kNothing) return text;
  while (absl::ConsumePrefix(&text, "\n")) {
  }
  while (end && absl::ConsumeSuffix(&text, "\n")) {
  }
  return text;
}

}  // namespace

ChatTemplate::ChatTemplate(TemplateSpec spec, std::shared_ptr<const Tokenizer> tokenizer)
    : spec_(std::move(spec)), tokenizer_(std::move(tokenizer)) {}

absl::StatusOr<ChatTemplate> ChatTemplate::Create(TemplateSpec spec,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  std::optional<std::string> default_system) {
  TORCH_CHECK(tokenizer != nullptr, "template '", spec.name,
              "': a tokenizer is expected, got none");
  TORCH_CHECK(!spec.system.empty() || spec.kind != TemplateSpec::Kind::kSystemInUser, "template '",
              spec.name, "': a slot for the system text is expected, got none");
  ChatTemplate result(std::move(spec), std::move(tokenizer));
  if (default_system.has_value()) result.spec_.default_system = *std::move(default_system);
  ASSIGN_OR_RETURN(result.tool_format_, FindToolFormat(result.spec_.tool_format), "template '",
                   result.spec_.name, "'");
  result.tokenizer_ = WithStopWords(result.spec_, result.tokenizer_);
  RETURN_IF_ERROR(result.CheckTokens(), "template '", result.spec_.name, "'");
  result.eos_ = *result.tokenizer_->eos();
  result.pad_ = *result.tokenizer_->pad();
  result.stop_ids_ = {result.eos_};
  for (const std::string& word : result.spec_.stop_words) {
    const int32_t id = *result.tokenizer_->IdOf(word);
    if (!absl::c_linear_search(result.stop_ids_, id)) result.stop_ids_.push_back(id);
  }
  return result;
}

// The id of the token that a slot names. If the vocabulary lacks this token, the id of the unknown
// token, if there is one.
std::optional<int32_t> ChatTemplate::IdOf(const Slot& slot) const {
  const std::optional<int32_t> id = tokenizer_->IdOf(slot.text);
  return id.has_value() ? id : tokenizer_->unk();
}

absl::Status ChatTemplate::CheckTokens() const {
  for (const std::vector<Slot>* slots :
       {&spec_.prefix, &spec_.system, &spec_.user, &spec_.assistant, &spec_.function_call,
        &spec_.observation}) {
    for (const Slot& slot : *slots) {
      if (slot.kind != Slot::Kind::kToken || IdOf(slot).has_value()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("needs the token '", slot.text,
                       "', which the tokenizer lacks, and it has no unknown token in its place"));
    }
  }
  return absl::OkStatus();
}

void ChatTemplate::Append(const std::vector<Slot>& slots, absl::string_view content,
                          std::optional<int64_t> turn, std::vector<int32_t>& ids) const {
  for (const Slot& slot : slots) {
    switch (slot.kind) {
      case Slot::Kind::kEos:
        ids.push_back(eos_);
        break;
      case Slot::Kind::kBos:
        if (tokenizer_->bos().has_value()) ids.push_back(*tokenizer_->bos());
        break;
      case Slot::Kind::kToken:
        ids.push_back(*IdOf(slot));
        break;
      case Slot::Kind::kText: {
        std::string text = slot.text;
        ReplaceFirst(text, "{{content}}", content);
        if (turn.has_value()) ReplaceFirst(text, "{{idx}}", absl::StrCat(*turn));
        const std::vector<int32_t> encoded = tokenizer_->Encode(text);
        ids.insert(ids.end(), encoded.begin(), encoded.end());
      }
    }
  }
}

// The system text followed by the description of the tools; nullopt if there is neither.
absl::StatusOr<std::optional<std::string>> ChatTemplate::SystemText(
    const Conversation& conversation) const {
  std::string text = conversation.system.empty() ? spec_.default_system : conversation.system;
  if (conversation.tools.empty()) return text.empty() ? std::nullopt : std::optional(text);
  if (!spec_.tools.empty()) {
    std::string described = spec_.tools;
    ReplaceFirst(described, "{{content}}", conversation.tools);
    return text + described;
  }
  ASSIGN_OR_RETURN(const OrderedJson tools, ParseOrderedJson(conversation.tools), "tools");
  if (!tools.is_array())
    return absl::InvalidArgumentError(
        absl::StrCat("tools: must be an array of tools, got ", tools.type_name()));
  if (tools.empty()) return text;
  const std::string date = spec_.date.empty()
                               ? absl::FormatTime("%d %b %Y", absl::Now(), absl::LocalTimeZone())
                               : spec_.date;
  ASSIGN_OR_RETURN(const std::string described, tool_format_.describe(tools, date), "tools");
  return text + described;
}

// The text of a function call in the tool format, with the reasoning and text next to the call.
absl::StatusOr<std::string> ChatTemplate::CallText(const Message& message) const {
  const std::string& content = message.content;
  std::string before, calls = content;
  // For kSystemInUser, LLaMA-Factory reads the whole content as the call.
  if (spec_.kind != TemplateSpec::Kind::kSystemInUser) {
    if (const auto call = FindPart(content, spec_.tool_call_begin, spec_.tool_call_end);
        call.has_value()) {
      before = Without(content, *call);
      calls = std::string(
          call->substr(spec_.tool_call_begin.size(),
                       call->size() - spec_.tool_call_begin.size() - spec_.tool_call_end.size()));
    } else if (const auto thought = FindPart(content, spec_.thought_begin, spec_.thought_end);
               thought.has_value()) {
      before = std::string(*thought);
      calls = Without(content, *thought);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<ToolCall> parsed, ParseToolCalls(calls));
  ASSIGN_OR_RETURN(const std::string text, tool_format_.call(parsed));
  std::string beside = ThoughtText(message);
  const bool says = !message.said.empty() && writes_text_beside_calls();
  if (writes_text_beside_calls() && (says || (!beside.empty() && !spec_.before_text.empty())))
    beside = tool_format_.before + beside;
  if (says) {
    absl::string_view said = message.said;
    if (tool_format_.trims) {
      said = absl::StripAsciiWhitespace(said);
    } else if (spec_.kind == TemplateSpec::Kind::kReasoning) {
      // The beginning is trimmed, because AddThought may put empty reasoning before this text.
      said = Trimmed(said, spec_.thought_trim, /*end=*/false);
    }
    absl::StrAppend(&beside, message.thought.empty() ? "" : spec_.before_text, said,
                    tool_format_.after);
  }
  return absl::StrCat(beside, before, text);
}

// An answer's text, preceded by its reasoning.
std::string ChatTemplate::AnswerText(const Message& message) const {
  if (message.thought.empty()) return message.content;
  const absl::string_view text = Trimmed(message.content, spec_.thought_trim, /*end=*/false);
  return absl::StrCat(ThoughtText(message), text.empty() ? "" : spec_.before_text, text);
}

std::string ChatTemplate::ThoughtText(const Message& message) const {
  if (message.thought.empty()) return "";
  return absl::StrCat(spec_.written_begin, message.thought, spec_.written_end);
}

// Puts an answer's reasoning into message.thought, trimmed; clears it if the template does not
// write reasoning from a separate field. With a reasoning template, reasoning inside the text (a
// <think> section) is moved to message.thought too: always if it is in the text next to a tool
// call, otherwise only if message.thought is set; both must then be equal.
absl::Status ChatTemplate::SettleThought(Message& message) const {
  if (!spec_.writes_thoughts) message.thought.clear();
  message.thought = std::string(Trimmed(message.thought, spec_.thought_trim, /*end=*/true));
  if (spec_.kind != TemplateSpec::Kind::kReasoning) return absl::OkStatus();
  const absl::string_view begin = absl::StripAsciiWhitespace(spec_.thought_begin),
                          end = absl::StripAsciiWhitespace(spec_.thought_end);
  std::string& text = message.said.empty() ? message.content : message.said;
  const auto part = FindPart(text, begin, end);
  if (!part.has_value() || (message.said.empty() && message.thought.empty()))
    return absl::OkStatus();
  const absl::string_view inside =
      part->substr(begin.size(), part->size() - begin.size() - end.size());
  if (!message.thought.empty() &&
      absl::StripAsciiWhitespace(inside) != absl::StripAsciiWhitespace(message.thought)) {
    return absl::InvalidArgumentError(
        "has a thought in its text and another one in a field of its own (reasoning_content, "
        "reasoning or thinking): leave one of them out");
  }
  message.thought = std::string(Trimmed(inside, spec_.thought_trim, /*end=*/true));
  text = Without(text, *part);
  text = text.substr(std::min(text.find_first_not_of('\n'), text.size()));
  return absl::OkStatus();
}

absl::Status ChatTemplate::SettleThoughts(Conversation& conversation) const {
  for (size_t i = 1; i < conversation.messages.size(); i += 2)
    RETURN_IF_ERROR(SettleThought(conversation.messages[i]), "message ", i);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int32_t>>> ChatTemplate::EncodeMessages(
    const Conversation& conversation) const {
  std::vector<std::vector<int32_t>> encoded;
  const bool in_user = spec_.kind == TemplateSpec::Kind::kSystemInUser;
  ASSIGN_OR_RETURN(const std::optional<std::string> system, SystemText(conversation));
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    TORCH_CHECK(IsAnswer(message.role) == (i % 2 == 1),
                "messages must be given and answered in turns; message ", i, " is ",
                i % 2 == 0 ? "an answer" : "none");
    std::vector<int32_t>& ids = encoded.emplace_back();
    std::string begin;  // prepended to the user's text
    if (i == 0) {
      Append(spec_.prefix, "", std::nullopt, ids);
      if (system.has_value() && in_user) {
        begin = spec_.system.front().text;
        ReplaceFirst(begin, "{{content}}", *system);
      } else if (system.has_value()) {
        Append(spec_.system, *system, std::nullopt, ids);
      }
    }
    switch (message.role) {
      case Role::kUser:
        Append(spec_.user, begin + message.content,
               in_user ? std::nullopt : std::optional<int64_t>(i / 2), ids);
        break;
      case Role::kAssistant:
        Append(spec_.assistant, AnswerText(message), std::nullopt, ids);
        break;
      case Role::kObservation:
        Append(spec_.observation, message.content, std::nullopt, ids);
        break;
      case Role::kFunctionCall: {
        ASSIGN_OR_RETURN(const std::string text, CallText(message), "message ", i,
                         ": a function call");
        Append(spec_.function_call, text, std::nullopt, ids);
      }
    }
  }
  return encoded;
}

std::string ChatTemplate::WithoutThought(const std::string& content) const {
  absl::string_view rest = content;
  std::string kept;
  while (const auto thought = FindPart(rest, spec_.thought_begin, spec_.thought_end)) {
    absl::StrAppend(&kept, rest.substr(0, thought->data() - rest.data()));
    rest.remove_prefix(thought->data() + thought->size() - rest.data());
  }
  absl::StrAppend(&kept, rest);
  return kept.substr(std::min(kept.find_first_not_of('\n'), kept.size()));
}

// Removes the reasoning of answers: with `earlier`, of all answers but the last one; with `last`,
// of the last one. For reasoning templates, also the reasoning inside their texts.
void ChatTemplate::DropThoughts(Conversation& conversation, bool earlier, bool last) const {
  std::vector<Message>& messages = conversation.messages;
  for (size_t i = 1; i < messages.size(); i += 2) {
    if (!(i + 2 < messages.size() ? earlier : last)) continue;
    messages[i].thought.clear();
    if (spec_.kind == TemplateSpec::Kind::kReasoning)
      messages[i].content = WithoutThought(messages[i].content);
  }
}

// Adds empty reasoning before an answer without reasoning, if this is a reasoning template.
void ChatTemplate::AddThought(const Message& answer, EncodedTurn& turn) const {
  if (spec_.kind != TemplateSpec::Kind::kReasoning || !answer.thought.empty()) return;
  for (const std::string& word : {spec_.thought_begin, spec_.thought_end}) {
    const absl::string_view bare = absl::StripAsciiWhitespace(word);
    if (absl::StrContains(answer.content, bare) || absl::StrContains(answer.said, bare)) return;
  }
  const std::vector<int32_t> thought = tokenizer_->Encode(spec_.empty_thought);
  if (spec_.enable_thinking.value_or(false)) {
    turn.response.insert(turn.response.begin(), thought.begin(), thought.end());
  } else {
    turn.prompt.insert(turn.prompt.end(), thought.begin(), thought.end());
    turn.opening = static_cast<int64_t>(thought.size());
  }
}

absl::StatusOr<std::vector<EncodedTurn>> ChatTemplate::EncodeTurns(const Conversation& conversation,
                                                                   bool last_turn_alone) const {
  TORCH_CHECK(conversation.messages.size() % 2 == 0,
              "a conversation to train on must end with an answer, got ",
              conversation.messages.size(), " messages");
  const bool none = spec_.enable_thinking == false,
             last_thought_alone = last_turn_alone && !spec_.preserve_thinking;
  Conversation settled = conversation;
  RETURN_IF_ERROR(SettleThoughts(settled));
  DropThoughts(settled, none || last_thought_alone, none);
  const std::vector<Message>& messages = settled.messages;
  ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> encoded, EncodeMessages(settled));
  std::vector<EncodedTurn> turns;
  for (size_t i = 0; i < encoded.size(); i += 2) {
    turns.push_back({.prompt = std::move(encoded[i]),
                     .response = std::move(encoded[i + 1]),
                     .learns_prompt = messages[i].learnt(),
                     .learns_response = messages[i + 1].learnt()});
    if (!last_thought_alone || i + 2 == encoded.size()) AddThought(messages[i + 1], turns.back());
  }
  return turns;
}

absl::StatusOr<EncodedTurn> ChatTemplate::EncodeAnswer(const Conversation& conversation,
                                                       const Message& answer) const {
  TORCH_CHECK(conversation.messages.size() % 2 == 1,
              "a prompt must end with a message to answer, got ", conversation.messages.size(),
              " messages");
  Conversation whole = conversation;
  whole.messages.push_back(answer);
  RETURN_IF_ERROR(SettleThoughts(whole));
  DropThoughts(whole, !spec_.preserve_thinking, spec_.enable_thinking == false);
  ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> encoded, EncodeMessages(whole));
  EncodedTurn turn;
  turn.response = std::move(encoded.back());
  encoded.pop_back();
  for (const std::vector<int32_t>& message : encoded)
    turn.prompt.insert(turn.prompt.end(), message.begin(), message.end());
  AddThought(whole.messages.back(), turn);
  return turn;
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::EncodePrompt(
    const Conversation& conversation) const {
  ASSIGN_OR_RETURN(EncodedTurn turn, EncodeAnswer(conversation, {Role::kAssistant, ""}));
  return std::move(turn.prompt);
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::EncodeNext(const Message& prompt,
                                                              int32_t last) const {
  TORCH_CHECK(!IsAnswer(prompt.role), "template '", spec_.name,
              "': expected a message that comes before an answer");
  const bool is_user = prompt.role == Role::kUser;
  if (is_user && absl::c_any_of(spec_.user, [](const Slot& slot) {
        return absl::StrContains(slot.text, "{{idx}}");
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "template '", spec_.name, "' numbers the user's messages: expected a tool result"));
  }
  // What the assistant's slots have after the text.
  std::vector<Slot> end = spec_.assistant;
  constexpr absl::string_view kContent = "{{content}}";
  const auto holder = absl::c_find_if(
      end, [&](const Slot& slot) { return absl::StrContains(slot.text, kContent); });
  if (holder != end.end()) {
    holder->text.erase(0, holder->text.find(kContent.data()) + kContent.size());
    end.erase(end.begin(), holder);
  }
  EncodedTurn turn;
  std::vector<int32_t>& ids = turn.prompt;
  if (spec_.efficient_eos) ids.push_back(eos_);
  Append(end, "", std::nullopt, ids);
  const auto is_stop = [this](int32_t id) { return absl::c_linear_search(stop_ids_, id); };
  if (is_stop(last)) {
    const auto stop = absl::c_find_if(ids, is_stop);
    if (stop != ids.end()) ids.erase(ids.begin(), stop + 1);
  }
  Append(is_user ? spec_.user : spec_.observation, prompt.content, std::nullopt, ids);
  AddThought({Role::kAssistant, ""}, turn);
  return std::move(turn.prompt);
}

absl::Status CheckToolFormat(absl::string_view name) { return FindToolFormat(name).status(); }

}  // namespace moonring::data
