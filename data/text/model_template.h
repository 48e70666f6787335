// The chat template that a model carries, as a tokenizer of Transformers 4.57 finds and renders it
// (apply_chat_template).
//
// Found in chat_template.jinja, else in tokenizer_config.json's chat_template: a text, or a list of
// {name, template} whose "default" is rendered. (Of a GGUF the latter is made from
// tokenizer.chat_template.) chat_template.json is for processors of pictures and sound; a tokenizer
// does not read it.
//
// A template sees messages, tools, documents, add_generation_prompt, what the caller adds, and the
// special tokens by their names (bos_token, eos_token, ..., additional_special_tokens), those that
// there are.
#ifndef MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_
#define MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/jinja/template.h"
#include "data/text/json/python_json.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

class ModelTemplate {
 public:
  // The contents of files beside a model, empty where they are not there; `where` is the model's
  // folder in messages.
  struct Files {
    std::string chat_template, tokenizer_config,
        tokenizer;  // chat_template.jinja, tokenizer_config.json, tokenizer.json
    std::string where;
  };

  // Null where the model carries none. Fails as jinja::Template::Parse.
  static absl::StatusOr<std::shared_ptr<const ModelTemplate>> Find(
      const Files& files, std::shared_ptr<const Tokenizer> tokenizer);

  // Messages are {role, content}. `more`: an object of further names, such as enable_thinking.
  absl::StatusOr<std::string> Render(OrderedJson messages, bool add_generation_prompt,
                                     const OrderedJson& more = OrderedJson::object()) const;

  // The same as ids: special tokens in the text are parsed as such, and none are added.
  absl::StatusOr<std::vector<int32_t>> Encode(
      OrderedJson messages, bool add_generation_prompt,
      const OrderedJson& more = OrderedJson::object()) const;

  // The text that the tokenizer puts before each text that it encodes alone: that of an empty one.
  const std::string& opening() const { return opening_; }

  bool is_one_of_several() const { return one_of_several_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ModelTemplate(jinja::Template parsed, std::shared_ptr<const Tokenizer> tokenizer)
      : template_(std::move(parsed)), tokenizer_(std::move(tokenizer)) {}

  jinja::Template template_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  OrderedJson words_;  // special tokens by their names
  std::string opening_;
  bool one_of_several_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_
