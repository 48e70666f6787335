#include "model/gguf/gguf_splitting_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "model/files/json_text.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;
using nlohmann::json;

constexpr const char* kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| )"
    R"(?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| )"
    R"(?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| )"
    R"(?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr const char* kLineEnd = "[\r\n]";
constexpr const char* kEastAsian = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr const char* kDeepSeekCoder[] = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kEastAsian};
constexpr const char* kDeepSeekLlm[] = {
    kLineEnd,
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-"
    "\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F"
    "\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-"
    "\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-"
    "\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-"
    "\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B"
    "\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-"
    "\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-"
    "\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-"
    "\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183"
    "\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-"
    "\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-"
    "\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+",
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", R"(\s+$)", kEastAsian};
constexpr const char* kDeepSeekV3[] = {
    R"(\p{N}{1,3})", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!"
    "\\S)|\\s+"};

// All rules, by GGUF name. Several names may have the same rule. Models that use the rules, in this
// order: Llama 3; Qwen 2 and 3, distilled DeepSeek R1; SmolLM 1 and 2, StarCoder, Granite 3
// (refact); GPT-2, Phi-1 to Phi-2; GLM-4 (two converters, two names); DBRX, OLMo 2; Mistral NeMo
// and later; GPT-4o, Phi-4-mini, Llama 4, gpt-oss.
constexpr GgufSplittingRule kRules[] = {
    {.name = "smollm", .patterns = {}, .single_digits = true},
    {.name = "starcoder", .patterns = {}, .single_digits = true},
    {.name = "refact", .patterns = {}, .single_digits = true},
    {.name = "gpt-2", .patterns = {}},
    {.name = "phi-2", .patterns = {}},
    {.name = "default", .patterns = {}},
    {.name = "llama-bpe", .patterns = kLlama3, .ignore_merges = true, .bos_by_default = true},
    {.name = "glm4", .patterns = kLlama3, .ignore_merges = true},
    {.name = "chatglm-bpe", .patterns = kLlama3, .ignore_merges = true},
    {.name = "dbrx", .patterns = kLlama3},
    {.name = "qwen2", .patterns = kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .patterns = kQwen2, .nfc = true},
    {.name = "qwen35", .patterns = kQwen35, .nfc = true},
    {.name = "tekken", .patterns = kTekken, .ignore_merges = true},
    {.name = "gpt-4o", .patterns = kGpt4o},
    {.name = "deepseek-llm", .patterns = kDeepSeekLlm, .single_digits = true},
    {.name = "deepseek-coder", .patterns = kDeepSeekCoder, .single_digits = true},
    {.name = "deepseek-v3", .patterns = kDeepSeekV3},
};

// How a text is processed before BPE.
struct Cuts {
  std::vector<std::string> patterns;
  bool single_digits = false, nfc = false, ignore_merges = false;
  bool own_pattern = false;  // also splits by ByteLevel's built-in pattern
};

// Whether a Split keeps all text, split at the pattern's matches. The patterns here match all of
// the text, so "Removed" with invert, which keeps the matches, is equivalent to "Isolated".
bool Isolates(const json& stage) {
  const std::string behavior = stage.value("behavior", "");
  const bool invert = stage.value("invert", false);
  return (behavior == "Isolated" && !invert) || (behavior == "Removed" && invert);
}

absl::StatusOr<Cuts> CutsOf(const json& tokenizer) {
  const auto unknown = [](const char* part, const json& stage) {
    return absl::UnimplementedError(absl::StrCat(part, " ", ShownJson(stage)));
  };
  Cuts cuts;
  cuts.ignore_merges = tokenizer["model"].value("ignore_merges", false);
  for (const json& stage : TokenizerStages(tokenizer.value("normalizer", json()), "normalizers")) {
    if (stage.value("type", "") != "NFC") return unknown("its normalizer", stage);
    cuts.nfc = true;
  }
  for (const json& stage :
       TokenizerStages(tokenizer.value("pre_tokenizer", json()), "pretokenizers")) {
    const std::string type = stage.value("type", "");
    const json pattern = stage.value("pattern", json::object());
    if (type == "Split" && pattern.contains("Regex") && Isolates(stage)) {
      cuts.patterns.push_back(pattern["Regex"].get<std::string>());
    } else if (type == "Digits" && stage.value("individual_digits", false)) {
      cuts.single_digits = true;
    } else if (type == "ByteLevel" && !stage.value("add_prefix_space", true)) {
      cuts.own_pattern = stage.value("use_regex", true);
    } else {
      return unknown("its pre_tokenizer's stage", stage);
    }
  }
  return cuts;
}

bool Cut(const GgufSplittingRule& rule, const Cuts& cuts) {
  return std::equal(rule.patterns.begin(), rule.patterns.end(), cuts.patterns.begin(),
                    cuts.patterns.end()) &&
         rule.patterns.empty() == cuts.own_pattern && rule.single_digits == cuts.single_digits &&
         rule.nfc == cuts.nfc && rule.ignore_merges == cuts.ignore_merges;
}

}  // namespace

std::vector<json> TokenizerStages(const json& stage, const char* list) {
  if (stage.is_null()) return {};
  if (stage.value("type", "") != "Sequence") return {stage};
  return stage.value(list, std::vector<json>{});
}

absl::StatusOr<const GgufSplittingRule*> GgufSplittingRuleOf(const json& tokenizer) {
  ASSIGN_OR_RETURN(const Cuts cuts, CutsOf(tokenizer));
  std::string known;
  for (const GgufSplittingRule& rule : kRules) {
    if (Cut(rule, cuts)) return &rule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", rule.name);
  }
  return absl::UnimplementedError(
      absl::StrCat("it cuts texts by none of the rules that have a name (", known,
                   "): its pre_tokenizer is ", ShownJson(tokenizer.value("pre_tokenizer", json())),
                   ", its normalizer ", ShownJson(tokenizer.value("normalizer", json())),
                   ", ignore_merges ", cuts.ignore_merges ? "true" : "false"));
}

absl::StatusOr<const GgufSplittingRule*> FindGgufSplittingRule(absl::string_view name) {
  std::string known;
  for (const GgufSplittingRule& rule : kRules) {
    if (name == rule.name) return &rule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", rule.name);
  }
  return absl::UnimplementedError(
      absl::StrCat("'", Shown(name), "' is not supported yet; supported: ", known));
}

OrderedJson PreTokenizerOf(const GgufSplittingRule& rule) {
  OrderedJson stages = OrderedJson::array();
  for (const char* pattern : rule.patterns) {
    stages.push_back({{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}});
  }
  if (rule.single_digits) stages.push_back({{"type", "Digits"}, {"individual_digits", true}});
  stages.push_back({{"type", "ByteLevel"},
                    {"add_prefix_space", false},
                    {"trim_offsets", true},
                    {"use_regex", rule.patterns.empty()}});
  if (stages.size() == 1) return stages[0];
  return {{"type", "Sequence"}, {"pretokenizers", stages}};
}

}  // namespace moonring::model
