#include "lua/bindings/rollout_prompts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "data/text/tokenizer.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"

namespace moonring::lua {
namespace {

// Whether a text of `texts` occurs in the last tokens of a turn. A text that occurred before the
// last token has ended the turn then, so only its end has to be decoded: a token has at least one
// byte, unless it is skipped in decoding.
bool EndsWithText(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                  size_t longest, absl::Span<const int64_t> ids) {
  const size_t count = std::min(ids.size(), longest + 8);
  const std::vector<int32_t> last(ids.end() - static_cast<int64_t>(count), ids.end());
  const std::string text = tokenizer.Decode(last);
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
}

}  // namespace

model::SamplingOptions SamplingOf(Options& options, model::SamplingOptions sampling) {
  sampling.max_new_tokens = options.Get<int64_t>("max_new_tokens", sampling.max_new_tokens);
  sampling.temperature = options.Get<double>("temperature", sampling.temperature);
  sampling.top_k = options.Get<int64_t>("top_k", sampling.top_k);
  sampling.top_p = options.Get<double>("top_p", sampling.top_p);
  sampling.repetition_penalty =
      options.Get<double>("repetition_penalty", sampling.repetition_penalty);
  if (auto ids = options.Find<std::vector<int64_t>>("stop_ids"))
    sampling.stop_ids = *std::move(ids);
  sampling.seed =
      static_cast<uint64_t>(options.Get<int64_t>("seed", static_cast<int64_t>(sampling.seed)));
  return sampling;
}

PromptReader::PromptReader(const model::SamplingOptions& sampling, Options& options)
    : sampling_(sampling), texts_(options.Get<std::vector<std::string>>("stop_texts", {})) {
  if (auto tokenizer = options.Find<std::shared_ptr<data::Tokenizer>>("tokenizer"))
    tokenizer_ = *std::move(tokenizer);
  EndsAt(texts_);
}

model::EndsTurn PromptReader::EndsAt(const std::vector<std::string>& texts) const {
  if (texts.empty()) return nullptr;
  TORCH_CHECK_VALUE(tokenizer_ != nullptr,
                    "option 'stop_texts': expected the option 'tokenizer' too");
  size_t longest = 0;
  for (const std::string& text : texts) {
    TORCH_CHECK_VALUE(!text.empty(), "option 'stop_texts': a text is empty");
    longest = std::max(longest, text.size());
  }
  return [tokenizer = tokenizer_, texts, longest](absl::Span<const int64_t> ids) {
    return EndsWithText(*tokenizer, texts, longest, ids);
  };
}

std::vector<model::RolloutPrompt> PromptReader::Read(lua_State* L, int index) const {
  const int size = static_cast<int>(ListSize(L, index));
  std::vector<model::RolloutPrompt> prompts;
  for (int i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, i);
    if (!lua_istable(L, -1)) {
      throw ValueError(index, absl::StrCat("prompt ", i, ": expected a table of ids and key, got ",
                                           WordsOfValue(L, -1)));
    }
    Options prompt(L, lua_gettop(L));
    model::RolloutPrompt read{.ids = prompt.Require<std::vector<int64_t>>("ids"),
                              .key = static_cast<uint64_t>(prompt.Get<int64_t>("key", 0)),
                              .sampling = SamplingOf(prompt, sampling_)};
    read.sampling->min_p = prompt.Get<double>("min_p", read.sampling->min_p);
    if (const auto answers = prompt.Find<int64_t>("answers")) {
      TORCH_CHECK_VALUE(*answers >= 1, "prompt ", i, ": answers is ", *answers,
                        ", expected 1 or more");
      read.answers = *answers;
    }
    read.top = prompt.Get<int64_t>("top", 0);
    if (const auto texts = prompt.Find<std::vector<std::string>>("stop_texts")) {
      read.ends_turn = EndsAt(*texts);
      // An empty list: not even the texts of the call end these answers.
      if (texts->empty() && !texts_.empty())
        read.ends_turn = [](absl::Span<const int64_t>) { return false; };
    }
    prompt.Finish();
    prompts.push_back(std::move(read));
    lua_pop(L, 1);
  }
  return prompts;
}

}  // namespace moonring::lua
