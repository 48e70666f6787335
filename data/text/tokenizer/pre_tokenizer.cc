#include "data/text/tokenizer/pre_tokenizer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/regex/pattern_field.h"
#include "data/text/regex/regex.h"
#include "data/text/regex/replacement.h"
#include "data/text/tokenizer/metaspace_fields.h"

namespace moonring::data {

class PreTokenizer::Stage {
 public:
  // Receives a part of a piece, and whether this part is at the beginning of the piece.
  using VisitPart = absl::FunctionRef<void(absl::string_view part, bool first)>;
  virtual ~Stage() = default;
  virtual void Split(absl::string_view piece, bool begins_text,
                     VisitPart visit) const = 0;  // may visit empty parts
};

namespace {

constexpr absl::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kWordOrNeither =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|)"
    R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";

constexpr absl::string_view kPunctuation = R"([\p{P}$+<=>^`|~])";

// What happens to a match: it becomes a separate piece, is removed, or is merged with a neighbour.
enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

absl::StatusOr<Behavior> BehaviorField(const nlohmann::json& object, absl::string_view where) {
  ASSIGN_OR_RETURN(const std::string name, StringField(object, "behavior", where));
  static constexpr std::pair<absl::string_view, Behavior> kNames[] = {
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return absl::UnimplementedError(
      absl::StrCat(where, ": behavior \"", name, "\" is not supported"));
}

// Splits at the matches of a pattern. Pieces are adjacent and in order, so joining two means taking
// the span of both.
class PatternStage final : public PreTokenizer::Stage {
 public:
  PatternStage(std::shared_ptr<const Regex> pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Split(absl::string_view piece, bool, VisitPart visit_part) const override {
    const auto visit = [&](absl::string_view part) {
      visit_part(part, part.data() == piece.data());
    };
    if (behavior_ == Behavior::kIsolated)
      return pattern_->Split(piece, [&](absl::string_view part, bool) { visit(part); });
    if (behavior_ == Behavior::kRemoved) {
      return pattern_->Split(piece, [&](absl::string_view part, bool match) {
        if (match == invert_) visit(part);
      });
    }
    absl::string_view held;   // a piece that the next part may be joined to
    bool held_match = false;  // whether the last part of `held` was a match
    bool holds = false;
    pattern_->Split(piece, [&](absl::string_view part, bool matched) {
      const bool match = matched != invert_;
      if (holds && Joins(held_match, match)) {
        held = absl::string_view(held.data(), held.size() + part.size());
      } else {
        if (holds) visit(held);
        held = part;
        holds = true;
      }
      held_match = match;
    });
    if (holds) visit(held);
  }

 private:
  bool Joins(bool previous_match, bool match) const {
    switch (behavior_) {
      case Behavior::kContiguous:
        return previous_match == match;
      case Behavior::kMergedWithPrevious:
        return match && !previous_match;
      default:  // kMergedWithNext
        return previous_match && !match;
    }
  }

  const std::shared_ptr<const Regex> pattern_;
  const Behavior behavior_;
  const bool invert_;
};

class PrefixSpaceStage final : public PreTokenizer::Stage {
 public:
  void Split(absl::string_view piece, bool, VisitPart visit) const override {
    if (!piece.empty() && piece[0] == ' ') return visit(piece, true);
    visit(absl::StrCat(" ", piece), true);
  }
};

class MetaspaceStage final : public PreTokenizer::Stage {
 public:
  explicit MetaspaceStage(MetaspaceFields fields) : fields_(std::move(fields)) {}

  void Split(absl::string_view piece, bool begins_text, VisitPart visit) const override {
    using Prepend = MetaspaceFields::Prepend;
    const std::string& space = fields_.replacement;
    std::string text = absl::StrReplaceAll(piece, {{" ", space}});
    const bool prepends =
        fields_.prepend == Prepend::kAlways || (fields_.prepend == Prepend::kFirst && begins_text);
    if (prepends && !absl::StartsWith(text, space)) text.insert(0, space);
    size_t begin = 0;
    for (size_t end = 0; fields_.split && (end = text.find(space, begin + 1)) != std::string::npos;
         begin = end) {
      visit(absl::string_view(text).substr(begin, end - begin), begin == 0);
    }
    visit(absl::string_view(text).substr(begin), begin == 0);
  }

 private:
  const MetaspaceFields fields_;
};

absl::StatusOr<std::unique_ptr<const PreTokenizer::Stage>> MakePatternStage(
    absl::string_view pattern, Behavior behavior, bool invert = false) {
  ASSIGN_OR_RETURN(auto regex, Regex::Compile(pattern));
  return std::make_unique<PatternStage>(std::move(regex), behavior, invert);
}

absl::StatusOr<std::unique_ptr<const PreTokenizer::Stage>> MakeSplitStage(
    const nlohmann::json& description, absl::string_view where) {
  ASSIGN_OR_RETURN(const Behavior behavior, BehaviorField(description, where));
  ASSIGN_OR_RETURN(const bool invert, BoolField(description, "invert", false, where));
  ASSIGN_OR_RETURN(auto regex, PatternField(description, "pattern", where));
  return std::make_unique<PatternStage>(std::move(regex), behavior, invert);
}

// Makes a stage of any type but BertPreTokenizer, ByteLevel and Sequence.
absl::StatusOr<std::unique_ptr<const PreTokenizer::Stage>> MakePreTokenizerStage(
    absl::string_view type, const nlohmann::json& description, absl::string_view where) {
  if (type == "Split") return MakeSplitStage(description, where);
  if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool individual,
                     BoolField(description, "individual_digits", false, where));
    return MakePatternStage(R"(\p{N})", individual ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    Behavior behavior = Behavior::kIsolated;
    if (description.contains("behavior")) {
      ASSIGN_OR_RETURN(behavior, BehaviorField(description, where));
    }
    return MakePatternStage(kPunctuation, behavior);
  }
  if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(const std::string delimiter, CharacterField(description, "delimiter", where));
    ASSIGN_OR_RETURN(auto regex, Regex::Literal(delimiter));
    return std::make_unique<PatternStage>(std::move(regex), Behavior::kRemoved, /*invert=*/false);
  }
  if (type == "Metaspace") {
    ASSIGN_OR_RETURN(MetaspaceFields fields, MetaspaceFieldsFromJson(description, where));
    return std::make_unique<MetaspaceStage>(std::move(fields));
  }
  if (type == "Whitespace")
    return MakePatternStage(kWordOrNeither, Behavior::kRemoved, /*invert=*/true);
  if (type == "WhitespaceSplit") return MakePatternStage(R"(\s)", Behavior::kRemoved);
  return absl::UnimplementedError(
      absl::StrCat(where, ": pre-tokenizer type \"", type, "\" is not supported"));
}

}  // namespace

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<const PreTokenizer>> PreTokenizer::FromJson(
    const nlohmann::json& description, std::optional<bool> add_prefix_space,
    absl::string_view where) {
  auto made = std::unique_ptr<PreTokenizer>(new PreTokenizer);
  if (!description.is_null())
    RETURN_IF_ERROR(made->Append(description, add_prefix_space, std::string(where)));
  return made;
}

absl::Status PreTokenizer::Append(const nlohmann::json& description,
                                  std::optional<bool> add_prefix_space, const std::string& where) {
  if (stages_.size() >= kMostStages)  // stages are nested calls and share the stack
    return absl::UnimplementedError(
        absl::StrCat(where, ": more than ", kMostStages, " pre-tokenizers are not supported"));
  ASSIGN_OR_RETURN(const std::string name, StringField(description, "type", where));
  const absl::string_view type = name;
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* parts, ArrayField(description, "pretokenizers", where));
    for (size_t i = 0; i < parts->size(); ++i) {
      RETURN_IF_ERROR(
          Append((*parts)[i], std::nullopt, absl::StrCat(where, ".pretokenizers[", i, "]")));
    }
    return absl::OkStatus();
  }
  if (byte_level_)
    return absl::UnimplementedError(
        absl::StrCat(where, ": \"", type, "\" after ByteLevel is not supported"));
  if (type == "ByteLevel") {
    ASSIGN_OR_RETURN(const bool prefix, BoolField(description, "add_prefix_space", true, where));
    ASSIGN_OR_RETURN(const bool use_regex, BoolField(description, "use_regex", true, where));
    byte_level_ = true;
    if (add_prefix_space.value_or(prefix)) stages_.push_back(std::make_unique<PrefixSpaceStage>());
    if (use_regex) {
      ASSIGN_OR_RETURN(auto stage, MakePatternStage(kGpt2Pattern, Behavior::kIsolated), where);
      stages_.push_back(std::move(stage));
    }
    return absl::OkStatus();
  }
  if (type == "BertPreTokenizer") {
    RETURN_IF_ERROR(Append({{"type", "WhitespaceSplit"}}, std::nullopt, where));
    return Append({{"type", "Punctuation"}}, std::nullopt, where);
  }
  ASSIGN_OR_RETURN(auto stage, MakePreTokenizerStage(type, description, where));
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

void PreTokenizer::Split(absl::string_view text, bool begins_text, Visit visit) const {
  if (!text.empty()) Run(0, text, begins_text, visit);
}

void PreTokenizer::Run(size_t stage, absl::string_view piece, bool begins_text, Visit visit) const {
  if (stage == stages_.size()) return visit(piece);
  stages_[stage]->Split(piece, begins_text, [&](absl::string_view part, bool first) {
    if (!part.empty()) Run(stage + 1, part, begins_text && first, visit);
  });
}

}  // namespace moonring::data
