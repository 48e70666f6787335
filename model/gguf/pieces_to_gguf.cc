#include "model/gguf/pieces_to_gguf.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/gguf/gguf_splitting_rules.h"
#include "model/gguf/sentencepiece_merges.h"

namespace moonring::model {
namespace {

using nlohmann::json;

constexpr int kBytes = 256;

// How spaces are treated before BPE.
struct Spaces {
  bool replaced = false;  // by U+2581
  bool prefix = false;    // one is added before each section of the text between special tokens
  bool first = false;     // one is added only before the whole text
  bool words = false;     // each word begins with its space
};

bool IsPattern(const json& stage, const char* text) {
  const json pattern = stage.value("pattern", json::object());
  return pattern.is_object() && pattern.value("String", "") == text;
}

absl::StatusOr<Spaces> SpacesOf(const json& tokenizer) {
  Spaces spaces;
  for (const json& stage : TokenizerStages(tokenizer.value("normalizer", json()), "normalizers")) {
    const std::string type = stage.value("type", "");
    if (type == "Prepend" && stage.value("prepend", "") == kSentencePieceSpace &&
        !spaces.replaced) {
      spaces.prefix = true;
    } else if (type == "Replace" && IsPattern(stage, " ") &&
               stage.value("content", "") == kSentencePieceSpace) {
      spaces.replaced = true;
    } else {
      return absl::UnimplementedError(absl::StrCat("its normalizer ", ShownJson(stage)));
    }
  }
  for (const json& stage :
       TokenizerStages(tokenizer.value("pre_tokenizer", json()), "pretokenizers")) {
    const std::string type = stage.value("type", "");
    const bool metaspace = type == "Metaspace" &&
                           stage.value("replacement", kSentencePieceSpace) == kSentencePieceSpace;
    if (metaspace && !spaces.replaced) {
      const bool prepends = stage.value("add_prefix_space", true);
      const std::string scheme = stage.value("prepend_scheme", prepends ? "always" : "never");
      spaces = {.replaced = true,
                .prefix = scheme != "never",
                .first = scheme == "first",
                .words = stage.value("split", true)};
    } else if (!(type == "Split" && IsPattern(stage, " ") && spaces.replaced)) {
      // A Split at spaces has no effect after spaces were replaced by U+2581.
      return absl::UnimplementedError(absl::StrCat("its pre_tokenizer's stage ", ShownJson(stage)));
    }
  }
  if (!spaces.replaced)
    return absl::UnimplementedError(
        "it is neither byte-level nor writes spaces as U+2581, as sentencepiece does");
  return spaces;
}

// Finds a piece that contains several words. Such a piece is never used in a tokenizer that splits
// texts at spaces first.
std::optional<std::string> PieceOfSeveralWords(const TokenizerTokens& tokens) {
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string& text = tokens.texts[id];
    if (tokens.types[id] == GgufTokenType::kNormal && !text.empty() &&
        absl::StrContains(absl::string_view(text).substr(1), kSentencePieceSpace))
      return text;
  }
  return std::nullopt;
}

bool IsByte(const std::string& text) {
  int value = 0;
  return text.size() == 6 && absl::StartsWith(text, "<0x") && text.back() == '>' &&
         absl::SimpleHexAtoi(text.substr(3, 2), &value);
}

absl::Status SetTypes(const json& model, TokenizerTokens& tokens) {
  if (!model.value("byte_fallback", false))
    return absl::UnimplementedError(
        "characters without a piece do not become bytes (byte_fallback)");
  if (model.value("ignore_merges", false))
    return absl::UnimplementedError("it ignores merges (ignore_merges)");
  int bytes = 0;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    if (!IsByte(tokens.texts[id])) continue;
    tokens.types[id] = GgufTokenType::kByte;
    ++bytes;
  }
  if (bytes != kBytes && !model.value("fuse_unk", false))
    return absl::UnimplementedError("it has unknown tokens one by one (fuse_unk false)");
  const std::optional<int64_t> unknown = tokens.IdOf(NamedToken(model, "unk_token"));
  if (unknown.has_value()) tokens.types[*unknown] = GgufTokenType::kUnknown;
  return absl::OkStatus();
}

std::vector<SentencePiece> PiecesOf(const TokenizerTokens& tokens) {
  std::vector<SentencePiece> pieces;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const GgufTokenType type = tokens.types[id];
    const bool made = type == GgufTokenType::kNormal || type == GgufTokenType::kUserDefined;
    pieces.push_back({tokens.texts[id], 0, made});
  }
  return pieces;
}

// Added tokens without spaces. They are matched before BPE runs, so merges that produce them have
// no effect.
absl::flat_hash_set<std::string> FoundBefore(const TokenizerTokens& tokens) {
  absl::flat_hash_set<std::string> found;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string& text = tokens.texts[id];
    if (tokens.types[id] == GgufTokenType::kUserDefined &&
        !absl::StrContains(text, kSentencePieceSpace) && !absl::StrContains(text, ' '))
      found.insert(text);
  }
  return found;
}

// Computes scores that reproduce the merges when the GGUF file is read. A reader applies
// user-defined pieces first, whatever their score is.
absl::StatusOr<std::vector<double>> ScoresOf(const TokenizerTokens& tokens) {
  std::vector<SentencePiece> pieces = PiecesOf(tokens);
  const std::vector<double> scores = SentencePieceScores(pieces, tokens.merges);
  for (size_t id = 0; id < pieces.size(); ++id)
    pieces[id].score = tokens.types[id] == GgufTokenType::kUserDefined ? 0 : scores[id];
  std::vector<std::pair<std::string, std::string>> wanted, found;
  const absl::flat_hash_set<std::string> passed = FoundBefore(tokens);
  for (const auto& merge : tokens.merges)
    if (!passed.contains(merge.first + merge.second)) wanted.push_back(merge);
  for (const auto& [left, right] : SentencePieceMerges(pieces)) {
    std::pair<std::string, std::string> merge(left, right);
    if (!passed.contains(merge.first + merge.second)) found.push_back(std::move(merge));
  }
  const auto [a, b] = std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end());
  if (a == wanted.end() && b == found.end()) return scores;
  const auto& [left, right] = a == wanted.end() ? *b : *a;
  return absl::UnimplementedError(
      absl::StrCat("no scores lead to its merges in their order: number ", a - wanted.begin(),
                   ", '", Shown(left), "' and '", Shown(right), "'"));
}

}  // namespace

absl::Status AddPieces(const json& tokenizer, TokenizerTokens& tokens, GgufMetadata& metadata,
                       std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(const Spaces spaces, SpacesOf(tokenizer));
  const std::optional<std::string> several = PieceOfSeveralWords(tokens);
  if (spaces.words && several.has_value()) {
    return absl::UnimplementedError(absl::StrCat("it splits texts at spaces and has '",
                                                 Shown(*several), "', of several words"));
  }
  RETURN_IF_ERROR(SetTypes(tokenizer["model"], tokens));
  ASSIGN_OR_RETURN(const std::vector<double> scores, ScoresOf(tokens));
  if (spaces.first)
    notes.emplace_back(
        "its tokenizer adds a space only at the beginning of a text, a .gguf file's also after "
        "each "
        "special token");
  // In user-defined pieces U+2581 is written as a space.
  std::vector<std::string> texts = tokens.texts;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (tokens.types[id] == GgufTokenType::kUserDefined)
      texts[id] = absl::StrReplaceAll(texts[id], {{kSentencePieceSpace, " "}});
  }
  metadata.String("tokenizer.ggml.model", "llama");
  metadata.String("tokenizer.ggml.pre", "default");
  metadata.Bool("tokenizer.ggml.add_space_prefix", spaces.prefix);
  metadata.Strings("tokenizer.ggml.tokens", texts);
  metadata.Numbers("tokenizer.ggml.scores", std::vector<float>(scores.begin(), scores.end()));
  return absl::OkStatus();
}

}  // namespace moonring::model
