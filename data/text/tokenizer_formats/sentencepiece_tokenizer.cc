#include "data/text/tokenizer_formats/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/tokenizer/bpe.h"
#include "data/text/tokenizer/unigram.h"

namespace moonring::data {
namespace {

using nlohmann::json;
using PieceType = SentencePieceModel::Type;

json ReplaceText(const std::string& text, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", content}};
}
json ReplacePattern(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}

absl::StatusOr<std::unique_ptr<const TokenModel>> MakeUnigram(const SentencePieceModel& model) {
  UnigramOptions options;
  options.unknown = model.unknown;
  options.byte_fallback = model.byte_fallback;
  options.fp32_sums = true;
  options.pieces.reserve(model.pieces.size());
  for (const auto& piece : model.pieces)
    options.pieces.push_back({piece.text, piece.score, piece.type == PieceType::kNormal});
  ASSIGN_OR_RETURN(auto made, Unigram::Create(options));
  return made;
}

absl::StatusOr<std::unique_ptr<const TokenModel>> MakeBpe(const SentencePieceModel& model) {
  BpeOptions options;
  options.alphabet = BpeAlphabet::kCharacters;
  options.unknown = model.pieces[model.unknown].text;
  options.fuse_unknown = true;
  options.byte_fallback = model.byte_fallback;
  std::vector<int32_t> by_score;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    options.vocabulary.emplace_back(model.pieces[id].text, static_cast<int64_t>(id));
    if (model.pieces[id].type == PieceType::kNormal) by_score.push_back(static_cast<int32_t>(id));
  }
  const auto score = [&](int32_t id) { return model.pieces[id].score; };
  std::stable_sort(by_score.begin(), by_score.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  options.token_ranks.assign(model.pieces.size(), -1);
  for (size_t i = 0; i < by_score.size(); ++i) {
    const bool equal = i > 0 && score(by_score[i]) == score(by_score[i - 1]);
    options.token_ranks[by_score[i]] =
        equal ? options.token_ranks[by_score[i - 1]] : static_cast<int32_t>(i);
  }
  ASSIGN_OR_RETURN(auto made, Bpe::Create(options));
  return made;
}

}  // namespace

json SentencePieceStages(const SentencePieceModel& model, bool prefix_each_part) {
  const std::string space = model.escape_whitespaces ? "\u2581" : " ";
  json normalizers = json::array();
  if (!model.characters_map.empty()) {
    normalizers.push_back({{"type", "Precompiled"},
                           {"precompiled_charsmap", absl::Base64Escape(model.characters_map)},
                           {"longest_match", true}});
  }
  if (model.remove_extra_whitespaces) {
    normalizers.push_back(ReplacePattern(R"(\A +)", ""));
    normalizers.push_back(ReplacePattern(" {2,}", " "));
  }
  if (model.add_dummy_prefix && prefix_each_part)
    normalizers.push_back({{"type", "Prepend"}, {"prepend", space}});
  if (model.escape_whitespaces) normalizers.push_back(ReplaceText(" ", space));
  if (model.remove_extra_whitespaces)
    normalizers.push_back(ReplacePattern(absl::StrCat(space, "+\\z"), ""));

  json decoders =
      json::array({ReplaceText(space, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  constexpr int64_t kAll = int64_t{1} << 40;
  const int64_t leading = model.remove_extra_whitespaces ? kAll : model.add_dummy_prefix ? 1 : 0;
  decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", leading}, {"stop", 0}});

  json pre_tokenizer;
  if (model.add_dummy_prefix && !prefix_each_part) {
    pre_tokenizer = {{"type", "Metaspace"},
                     {"replacement", space},
                     {"prepend_scheme", "first"},
                     {"split", false}};
  }
  return {{"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", pre_tokenizer},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};
}

std::vector<std::pair<int32_t, AddedToken>> SentencePieceAddedTokens(
    const SentencePieceModel& model) {
  std::vector<std::pair<int32_t, AddedToken>> added;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const bool special = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    if (!special && piece.type != PieceType::kUserDefined) continue;
    added.emplace_back(static_cast<int32_t>(id), AddedToken{.content = piece.text,
                                                            .normalized = !special,
                                                            .special = special,
                                                            .verbatim = !special});
  }
  return added;
}

absl::StatusOr<std::unique_ptr<const TokenModel>> SentencePieceTokenModel(
    const SentencePieceModel& model) {
  return model.kind == SentencePieceModel::Kind::kUnigram ? MakeUnigram(model) : MakeBpe(model);
}

}  // namespace moonring::data
