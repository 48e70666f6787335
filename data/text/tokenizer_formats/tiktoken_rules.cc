#include "data/text/tokenizer_formats/tiktoken_rules.h"

#include <cstddef>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::data {
namespace {

using nlohmann::json;
using SpecialTokens = std::vector<std::pair<std::string, int32_t>>;

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| )"
    R"(?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// White space at the end of a text, including line ends, is one word.
constexpr const char* kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| )"
    R"(?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kQwen36Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| )"
    R"(?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kEndOfText = "<|endoftext|>";

// Special tokens with consecutive ids from `first` on: the names, then STEM0|>, STEM1|>, ... up to
// `end`.
SpecialTokens Consecutive(int32_t first, std::vector<std::string> names,
                          const std::string& stem = "", int32_t numbered_from = 0,
                          int32_t end = 0) {
  SpecialTokens tokens;
  int32_t id = first;
  for (std::string& name : names) tokens.emplace_back(std::move(name), id++);
  for (int32_t number = numbered_from; id < end; ++number)
    tokens.emplace_back(absl::StrCat(stem, number, "|>"), id++);
  return tokens;
}

SpecialTokens
Llama3Tokens() {  // for Llama 3.1 and later; in Llama 3, three of these names are reserved tokens
  const std::string reserved = "<|reserved_special_token_";
  return Consecutive(128000,
                     {"<|begin_of_text|>", "<|end_of_text|>", reserved + "0|>", reserved + "1|>",
                      "<|finetune_right_pad_id|>", reserved + "2|>", "<|start_header_id|>",
                      "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"},
                     reserved, /*numbered_from=*/3, /*end=*/128256);
}

// Three sections of 2048 ids, each with names followed by reserved tokens, which are numbered
// independently of the names, and a fourth section of reserved tokens.
SpecialTokens Llama4Tokens() {
  SpecialTokens tokens =
      Consecutive(200000, {"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>",
                           "<|fim_middle|>", "<|fim_suffix|>", "<|header_start|>", "<|header_end|>",
                           "<|eom|>", "<|eot|>", "<|step|>"});
  const auto add = [&](std::vector<std::string> names, const std::string& stem = "",
                       int32_t numbered_from = 0, int32_t numbered = 0) {
    const int32_t next = tokens.back().second + 1;
    for (auto& token : Consecutive(next, names, stem, numbered_from,
                                   next + static_cast<int32_t>(names.size()) + numbered))
      tokens.push_back(std::move(token));
  };
  const std::string text = "<|text_post_train_reserved_special_token_",
                    vision = "<|vision_reserved_special_token_",
                    reasoning = "<|reasoning_reserved_special_token_";
  add({}, text, 0, 6);
  add({"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"}, text, 8, 61);
  add({"<|image_start|>", "<|image_end|>"}, vision, 0, 2);
  add({"<|tile_x_separator|>", "<|tile_y_separator|>"}, vision, 2, 4);
  add({"<|image|>"}, vision, 6, 1);
  add({"<|patch|>"}, vision, 7, 1041);
  add({}, reasoning, 0, 8);
  add({"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"});
  add({}, "<|reserved_special_token_", 0, 200000 + 2048 - (tokens.back().second + 1));
  return tokens;
}

SpecialTokens QwenTokens() {
  return Consecutive(151643, {kEndOfText, "<|im_start|>", "<|im_end|>"}, "<|extra_",
                     /*numbered_from=*/0, /*end=*/151851);
}

SpecialTokens Qwen36Tokens() {
  return Consecutive(248044, {kEndOfText,
                              "<|im_start|>",
                              "<|im_end|>",
                              "<|object_ref_start|>",
                              "<|object_ref_end|>",
                              "<|box_start|>",
                              "<|box_end|>",
                              "<|quad_start|>",
                              "<|quad_end|>",
                              "<|vision_start|>",
                              "<|vision_end|>",
                              "<|vision_pad|>",
                              "<|image_pad|>",
                              "<|video_pad|>",
                              "<tool_call>",
                              "</tool_call>",
                              "<|fim_prefix|>",
                              "<|fim_middle|>",
                              "<|fim_suffix|>",
                              "<|fim_pad|>",
                              "<|repo_name|>",
                              "<|file_sep|>",
                              "<tool_response>",
                              "</tool_response>",
                              "<think>",
                              "</think>",
                              "<|audio_start|>",
                              "<|audio_end|>",
                              "<tts_pad>",
                              "<tts_text_bos>",
                              "<tts_text_eod>",
                              "<tts_text_bos_single>",
                              "<|audio_pad|>"});
}

struct Known {
  size_t tokens;
  TiktokenRule (*rule)();
};

constexpr Known kKnown[] = {
    {50256,
     [] {
       return TiktokenRule{.name = "gpt2",
                           .special_tokens = {{kEndOfText, 50256}},
                           .bos = kEndOfText,
                           .eos = kEndOfText};
     }},
    {50280,
     [] {
       return TiktokenRule{.name = "p50k",
                           .special_tokens = {{kEndOfText, 50256}},
                           .bos = kEndOfText,
                           .eos = kEndOfText};
     }},
    {100256,
     [] {
       SpecialTokens special =
           Consecutive(100257, {kEndOfText, "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"});
       special.emplace_back("<|endofprompt|>", 100276);
       return TiktokenRule{.name = "cl100k",
                           .pattern = kCl100kPattern,
                           .special_tokens = std::move(special),
                           .eos = kEndOfText};
     }},
    {128000,
     [] {
       return TiktokenRule{.name = "llama3",
                           .pattern = kLlama3Pattern,
                           .special_tokens = Llama3Tokens(),
                           .bos = "<|begin_of_text|>",
                           .eos = "<|end_of_text|>"};
     }},
    {151643,
     [] {
       return TiktokenRule{.name = "qwen",
                           .pattern = kQwenPattern,
                           .nfc = true,
                           .special_tokens = QwenTokens(),
                           .eos = kEndOfText};
     }},
    {199998,
     [] {
       return TiktokenRule{.name = "o200k",
                           .pattern = kO200kPattern,
                           .special_tokens = {{kEndOfText, 199999}, {"<|endofprompt|>", 200018}},
                           .eos = kEndOfText};
     }},
    {200000,
     [] {
       return TiktokenRule{.name = "llama4",
                           .pattern = kO200kPattern,
                           .special_tokens = Llama4Tokens(),
                           .bos = "<|begin_of_text|>",
                           .eos = "<|end_of_text|>"};
     }},
    {248044,
     [] {
       return TiktokenRule{.name = "qwen3.6",
                           .pattern = kQwen36Pattern,
                           .nfc = true,
                           .special_tokens = Qwen36Tokens(),
                           .eos = kEndOfText};
     }},
};

}  // namespace

absl::StatusOr<TiktokenRule> FindTiktokenRule(const TiktokenRanks& ranks, absl::string_view where) {
  std::string known;
  for (const Known& candidate : kKnown) {
    if (ranks.tokens.size() == candidate.tokens) return candidate.rule();
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.tokens, " (",
                    candidate.rule().name, ")");
  }
  return absl::UnimplementedError(
      absl::StrCat(where, ": ranks of ", ranks.tokens.size(),
                   " tokens: how they split texts is only known for files with ", known,
                   " tokens; use a model folder that has a tokenizer.json"));
}

json TiktokenStages(const TiktokenRule& rule) {
  json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", rule.pattern.empty()}};
  json pre_tokenizer = byte_level;
  if (!rule.pattern.empty()) {
    const json split = {{"type", "Split"},
                        {"pattern", {{"Regex", rule.pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}};
  }
  return {{"normalizer", rule.nfc ? json({{"type", "NFC"}}) : json()},
          {"pre_tokenizer", pre_tokenizer},
          {"decoder", {{"type", "ByteLevel"}}}};
}

}  // namespace moonring::data
