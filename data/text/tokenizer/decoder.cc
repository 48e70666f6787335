#include "data/text/tokenizer/decoder.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/regex/replacement.h"
#include "data/text/tokenizer/byte_alphabet.h"
#include "data/text/tokenizer/metaspace_fields.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {

class Decoder::Stage {
 public:
  virtual ~Stage() = default;
  virtual bool SeesEachByItself() const { return false; }
  virtual Pieces Run(Pieces pieces) const = 0;
  // The byte that a piece stands for, if the stage has such pieces.
  virtual std::optional<char> AsByte(absl::string_view) const { return std::nullopt; }
  // Whether pieces are bytes, which together are UTF-8.
  virtual bool TakesBytes() const { return false; }
  virtual double Growth() const { return 1.0; }  // see data/text/regex/replacement.h
};

namespace {

using Pieces = Decoder::Pieces;

template <typename Visit>
void ForEach(const Pieces& pieces, Visit visit) {
  size_t begin = 0;
  for (const size_t end : pieces.ends) {
    visit(absl::string_view(pieces.text).substr(begin, end - begin));
    begin = end;
  }
}

// A stage that rewrites each piece separately.
class RewritingStage : public Decoder::Stage {
 public:
  bool SeesEachByItself() const override { return true; }
  virtual std::string Rewrite(absl::string_view piece, bool first) const = 0;

  Pieces Run(Pieces pieces) const final {
    Pieces out;
    out.text.reserve(pieces.text.size());
    out.ends.reserve(pieces.ends.size());
    ForEach(pieces, [&](absl::string_view piece) { out.Add(Rewrite(piece, out.ends.empty())); });
    return out;
  }
};

// The decoder type ByteLevel consists of this stage, followed by JoinStage.
class BytesOfLettersStage final : public RewritingStage {
 public:
  std::string Rewrite(absl::string_view piece, bool) const override {
    return BytesOfLetters(piece).value_or(std::string(piece));
  }
};

class JoinStage final : public Decoder::Stage {
 public:
  explicit JoinStage(bool repair) : repair_(repair) {}
  bool TakesBytes() const override { return repair_; }
  Pieces Run(Pieces pieces) const override {
    if (repair_ && ValidUtf8Prefix(pieces.text) < pieces.text.size())
      pieces.text = ReplaceMalformedUtf8(pieces.text);
    pieces.ends = {pieces.text.size()};
    return pieces;
  }

 private:
  const bool repair_;
};

class DecoderReplaceStage final : public RewritingStage {
 public:
  explicit DecoderReplaceStage(Replacement replacement) : replacement_(std::move(replacement)) {}
  double Growth() const override { return replacement_.growth; }
  std::string Rewrite(absl::string_view piece, bool) const override {
    return replacement_.Apply(piece, MostRewritten(piece.size()));
  }

 private:
  const Replacement replacement_;
};

class DecoderStripStage final : public RewritingStage {
 public:
  DecoderStripStage(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  std::string Rewrite(absl::string_view piece, bool) const override {
    for (int64_t i = 0; i < start_ && absl::StartsWith(piece, content_); ++i)
      piece.remove_prefix(content_.size());
    for (int64_t i = 0; i < stop_ && absl::EndsWith(piece, content_); ++i)
      piece.remove_suffix(content_.size());
    return std::string(piece);
  }

 private:
  const std::string content_;  // one character
  const int64_t start_, stop_;
};

class DecoderMetaspaceStage final : public RewritingStage {
 public:
  explicit DecoderMetaspaceStage(MetaspaceFields fields) : fields_(std::move(fields)) {}
  bool SeesEachByItself() const override {
    return fields_.prepend == MetaspaceFields::Prepend::kNever;
  }
  std::string Rewrite(absl::string_view piece, bool first) const override {
    return absl::StrReplaceAll(piece,
                               {{fields_.replacement, first && !SeesEachByItself() ? "" : " "}});
  }

 private:
  const MetaspaceFields fields_;
};

class WordPieceStage final : public RewritingStage {
 public:
  WordPieceStage(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  bool SeesEachByItself() const override { return false; }
  std::string Rewrite(absl::string_view piece, bool first) const override {
    std::string text;
    if (first) {
      text = std::string(piece);
    } else if (absl::StartsWith(piece, prefix_)) {
      text = std::string(piece.substr(prefix_.size()));
    } else {
      text = absl::StrCat(" ", piece);
    }
    if (!cleanup_) return text;
    // The replacements are made one after another, as in the tokenizers library.
    static constexpr std::pair<absl::string_view, absl::string_view> kJoined[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& joined : kJoined) absl::StrReplaceAll({joined}, &text);
    return text;
  }

 private:
  const std::string prefix_;
  const bool cleanup_;
};

class WordEndStage final : public Decoder::Stage {
 public:
  explicit WordEndStage(std::string suffix) : suffix_(std::move(suffix)) {}
  Pieces Run(Pieces pieces) const override {
    Pieces out;
    ForEach(pieces, [&](absl::string_view piece) {
      const bool last = out.ends.size() + 1 == pieces.ends.size();
      out.Add(absl::StrReplaceAll(piece, {{suffix_, last ? "" : " "}}));
    });
    return out;
  }

 private:
  const std::string suffix_;
};

class ByteFallbackStage final : public Decoder::Stage {
 public:
  Pieces Run(Pieces pieces) const override {
    Pieces out;
    out.text.reserve(pieces.text.size());
    out.ends.reserve(pieces.ends.size());
    std::string bytes;
    const auto add_bytes = [&] {
      if (bytes.empty()) return;
      if (ValidUtf8Prefix(bytes) == bytes.size()) {
        out.Add(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.Add("\uFFFD");
      }
      bytes.clear();
    };
    ForEach(pieces, [&](absl::string_view piece) {
      if (const std::optional<char> byte = AsByte(piece)) return bytes.push_back(*byte);
      add_bytes();
      out.Add(piece);
    });
    add_bytes();
    return out;
  }

  // Parses <0xAB>. As in Rust's parser, the first digit may be a plus sign.
  std::optional<char> AsByte(absl::string_view piece) const override {
    if (piece.size() != 6 || !absl::StartsWith(piece, "<0x") || piece[5] != '>')
      return std::nullopt;
    int value = 0;
    for (size_t at = piece[3] == '+' ? 4 : 3; at < 5; ++at) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(piece[at]))) return std::nullopt;
      value = value * 16 + (absl::ascii_isdigit(static_cast<unsigned char>(piece[at]))
                                ? piece[at] - '0'
                                : absl::ascii_tolower(piece[at]) - 'a' + 10);
    }
    return static_cast<char>(value);
  }
};

absl::StatusOr<std::unique_ptr<const Decoder::Stage>> MakeStripStage(
    const nlohmann::json& description, absl::string_view where) {
  ASSIGN_OR_RETURN(std::string content, CharacterField(description, "content", where));
  ASSIGN_OR_RETURN(const int64_t start, IntegerField(description, "start", where));
  ASSIGN_OR_RETURN(const int64_t stop, IntegerField(description, "stop", where));
  return std::make_unique<DecoderStripStage>(std::move(content), start, stop);
}

// Makes a stage of any type but ByteLevel and Sequence.
absl::StatusOr<std::unique_ptr<const Decoder::Stage>> MakeDecoderStage(
    absl::string_view type, const nlohmann::json& description, absl::string_view where) {
  if (type == "Replace") {
    ASSIGN_OR_RETURN(Replacement replacement, Replacement::FromJson(description, where));
    return std::make_unique<DecoderReplaceStage>(std::move(replacement));
  }
  if (type == "Strip") return MakeStripStage(description, where);
  if (type == "ByteFallback") return std::make_unique<ByteFallbackStage>();
  if (type == "Fuse") return std::make_unique<JoinStage>(/*repair=*/false);
  if (type == "Metaspace") {
    ASSIGN_OR_RETURN(MetaspaceFields fields, MetaspaceFieldsFromJson(description, where));
    return std::make_unique<DecoderMetaspaceStage>(std::move(fields));
  }
  if (type == "WordPiece") {
    ASSIGN_OR_RETURN(std::string prefix, StringField(description, "prefix", where));
    ASSIGN_OR_RETURN(const bool cleanup, BoolField(description, "cleanup", true, where));
    return std::make_unique<WordPieceStage>(std::move(prefix), cleanup);
  }
  if (type == "BPEDecoder") {
    ASSIGN_OR_RETURN(std::string suffix, StringField(description, "suffix", where));
    return std::make_unique<WordEndStage>(std::move(suffix));
  }
  return absl::UnimplementedError(
      absl::StrCat(where, ": decoder type \"", type, "\" is not supported"));
}

}  // namespace

Decoder::Decoder() = default;
Decoder::~Decoder() = default;

absl::StatusOr<std::unique_ptr<const Decoder>> Decoder::FromJson(const nlohmann::json& description,
                                                                 absl::string_view where) {
  auto made = std::unique_ptr<Decoder>(new Decoder);
  RETURN_IF_ERROR(made->Append(description, std::string(where)));
  const auto& stages = made->stages_;
  const auto head_end = std::find_if(stages.begin(), stages.end(),
                                     [](const auto& stage) { return !stage->SeesEachByItself(); });
  made->head_ = static_cast<size_t>(head_end - stages.begin());
  return made;
}

absl::Status Decoder::Append(const nlohmann::json& description, const std::string& where) {
  if (stages_.size() >= kMostStages)
    return absl::UnimplementedError(
        absl::StrCat(where, ": more than ", kMostStages, " decoders are not supported"));
  ASSIGN_OR_RETURN(const std::string type, StringField(description, "type", where));
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* parts, ArrayField(description, "decoders", where));
    for (size_t i = 0; i < parts->size(); ++i)
      RETURN_IF_ERROR(Append((*parts)[i], absl::StrCat(where, ".decoders[", i, "]")));
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    stages_.push_back(std::make_unique<BytesOfLettersStage>());
    stages_.push_back(std::make_unique<JoinStage>(/*repair=*/true));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto stage, MakeDecoderStage(type, description, where));
  growth_ *= stage->Growth();
  RETURN_IF_ERROR(CheckGrowth(growth_, where));
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

std::string Decoder::Token(absl::string_view token) const {
  Pieces pieces;
  pieces.Add(token);
  for (size_t i = 0; i < head_; ++i) pieces = stages_[i]->Run(std::move(pieces));
  return std::move(pieces.text);
}

std::string Decoder::Join(Pieces tokens) const {
  for (size_t i = head_; i < stages_.size(); ++i) tokens = stages_[i]->Run(std::move(tokens));
  return std::move(tokens.text);
}

std::string Decoder::BytesInside(absl::string_view token) const {
  for (size_t i = head_; i < stages_.size(); ++i) {
    if (const std::optional<char> byte = stages_[i]->AsByte(token)) return std::string(1, *byte);
    if (stages_[i]->TakesBytes()) return std::string(token);
  }
  // Some stages treat the first token differently: the second of two is inside.
  Pieces one, two;
  one.Add(token);
  two.Add(token);
  two.Add(token);
  const std::string first = Join(std::move(one)), both = Join(std::move(two));
  return absl::StartsWith(both, first) ? both.substr(first.size()) : first;
}

}  // namespace moonring::data
