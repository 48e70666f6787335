// Encodes text to token ids and back, as defined by a Hugging Face tokenizer.json, with the same
// ids and texts as the tokenizers library. Supported: byte-level BPE (GPT-2, Llama 3, Qwen,
// SmolLM2, ...) if the pre-tokenizer has ByteLevel, otherwise BPE of characters with byte fallback,
// as sentencepiece's (Llama 2, Mistral 7B, Gemma, Phi-3, InternLM, Yi, TinyLlama, ...); Unigram
// (T5, XLM-R, NLLB, ...); WordPiece (BERT).
//
//   text -> added tokens (data/text/tokenizer/added_tokens.h) -> normalizer -> pre-tokenizer -> the
//       model's tokens of each word -> ids -> decoder (data/text/tokenizer/decoder.h) -> text
//
// Encode does not add tokens (the post-processor is not read), but parses added and special tokens
// in the text, as Transformers does with add_special_tokens=False. Decode does not clean up spaces.
// Malformed UTF-8 becomes U+FFFD in both directions. As in Transformers, the added_tokens_decoder
// and the named, additional and extra special tokens of tokenizer_config.json (of Transformers 4 or
// 5) are added to those of tokenizer.json.
//
// Thread-safe: each Encode uses a workspace that caches words. Cost of Encode: linear in the text,
// n log n in the length of a single word. Creation fails with INVALID_ARGUMENT (malformed JSON:
// `where:LINE:COLUMN`; wrong fields, merges of unknown tokens, duplicate ids) or UNIMPLEMENTED,
// which names what is not supported: another model (WordLevel), dropout, unknown types.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_H_
#define MOONRING_DATA_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/text/tokenizer/added_tokens.h"
#include "data/text/tokenizer/decoder.h"
#include "data/text/tokenizer/normalizer.h"
#include "data/text/tokenizer/pre_tokenizer.h"
#include "data/text/tokenizer/token_model.h"

namespace moonring::data {

// Options of a tokenizer in addition to its files.
struct TokenizerOptions {
  // New tokens, which get the next free ids: first the normal ones, then the special ones.
  std::vector<std::string> add_tokens, add_special_tokens;
  bool split_special_tokens = false;  // encode text that spells a special token as ordinary text
};

// Differences of a tokenizer from its files (data/text/tokenizer_files.h writes them to the files).
struct TokenizerAdditions {
  std::vector<int32_t> ids;             // ids that became added tokens, or became special
  std::vector<std::string> stop_words;  // those of them that are a template's stop words
  bool eos = false;                     // the eos differs from that in the files

  bool any() const { return !ids.empty() || eos; }
};

class Tokenizer {
 public:
  // Takes the contents of the two files (the second may be empty); `where` names the first in
  // messages.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromJson(
      absl::string_view tokenizer_json, absl::string_view tokenizer_config_json,
      absl::string_view where, const TokenizerOptions& options = {});

  // For a folder without tokenizer.json: a sentencepiece model
  // (data/text/tokenizer_formats/sentencepiece_tokenizer.h), tiktoken's ranks
  // (data/text/tokenizer_formats/tiktoken_rules.h) or Mistral's tekken.json
  // (data/text/tokenizer_formats/tekken.h), distinguished by their contents. For sentencepiece,
  // tokenizer_config.json specifies whether a space is put before each part between special tokens
  // (legacy, the default), before the text, or nowhere (add_prefix_space false), as for
  // LlamaTokenizerFast; UNIMPLEMENTED if its class uses other ids than the model. For a rank file,
  // the special tokens are those of added_tokens_decoder in tokenizer_config.json, if it has them.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromModelFile(
      absl::string_view contents, absl::string_view tokenizer_config_json, absl::string_view where,
      const TokenizerOptions& options = {});

  // For GPT-2's pair of files: vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
  // <|endoftext|>, if in the vocabulary, is special, and is the bos, eos and unk unless
  // tokenizer_config.json names others.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromVocabAndMerges(
      absl::string_view vocab_json, absl::string_view merges_txt,
      absl::string_view tokenizer_config_json, absl::string_view where,
      const TokenizerOptions& options = {});

  // Returns the same tokenizer with the words that end an answer as special tokens, in
  // LLaMA-Factory's order; new tokens get the next free ids:
  //  eos               if set and different from the tokenizer's: becomes its eos
  //  <|endoftext|>     as the eos, if there would otherwise be none
  //  stop_words        those that are not additional special tokens yet
  // If the tokenizer has no pad token, its eos is used.
  static std::shared_ptr<const Tokenizer> WithStopWords(
      const std::shared_ptr<const Tokenizer>& tokenizer, const std::optional<std::string>& eos,
      const std::vector<std::string>& stop_words);

  std::vector<int32_t> Encode(absl::string_view text) const;

  // Ignores ids without a token and, with `skip_special`, special tokens.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special = false) const;

  // The bytes that a token adds to a text inside of it (not at its beginning, where some decoders
  // drop a space); they may be a part of a character. Empty if no token has that id.
  std::string BytesOf(int32_t id) const;

  // The id of a token, given by its text in the vocabulary (byte-level: in GPT-2's alphabet; added
  // tokens: verbatim).
  std::optional<int32_t> IdOf(absl::string_view token) const;
  std::string TokenOf(int32_t id) const;  // empty if no token has that id
  bool IsSpecial(int32_t id) const;
  // The special tokens without a name (Transformers' additional_special_tokens), including stop
  // words.
  std::vector<int32_t> more_special_ids() const;

  int64_t vocab_size() const;  // number of tokens, including added ones
  int32_t end_id() const;      // largest id + 1
  const AddedTokens& added_tokens() const { return *added_; }
  const TokenizerAdditions& additions() const { return additions_; }

  // The tokens named in tokenizer_config.json.
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  std::optional<int32_t> pad() const { return pad_; }
  std::optional<int32_t> unk() const { return unk_; }

  // Whether the tokenizer's class in Transformers adds a bos to each text (add_bos_token). Encode
  // never adds one.
  bool adds_bos() const { return adds_bos_; }

  bool splits_special() const { return split_special_; }

 private:
  Tokenizer() = default;
  Tokenizer(const Tokenizer& other);
  struct Parts;
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Build(const Parts& parts,
                                                                const nlohmann::json& config,
                                                                absl::string_view where,
                                                                const TokenizerOptions& options);
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> BuildFromJson(
      const nlohmann::json& document, const nlohmann::json& config, absl::string_view where,
      const TokenizerOptions& options);
  absl::Status ReadAddedTokens(const nlohmann::json& document, absl::string_view where);
  absl::Status ReadAddedTokensDecoder(const nlohmann::json& config, bool exact_ids,
                                      absl::string_view where);
  absl::Status ReadMoreSpecialTokens(const nlohmann::json& config, absl::string_view where);
  absl::Status ReadConfig(const nlohmann::json& config, bool exact_ids, absl::string_view where);
  absl::StatusOr<std::optional<int32_t>> AddSpecial(const nlohmann::json& token,
                                                    absl::string_view where);
  absl::Status ReadAddsBos(const nlohmann::json& config, absl::string_view where);
  int32_t AddLater(const std::string& token, bool special);
  void Finish();
  void FillDecodeTable();
  std::unique_ptr<TokenModel::Workspace> TakeWorkspace() const;

  std::string where_;  // file name, for messages

  // Shared by a tokenizer and those derived from it.
  std::shared_ptr<const TokenModel> model_;
  std::shared_ptr<const Normalizer> normalizer_;
  std::shared_ptr<const PreTokenizer> pre_tokenizer_;
  std::shared_ptr<const Decoder> decoder_;
  std::optional<AddedTokens> added_;
  std::optional<int32_t> bos_, eos_, pad_, unk_;
  bool adds_bos_ = false;
  bool split_special_ = false;
  std::vector<std::string> more_special_;  // without a name (additional_special_tokens)
  TokenizerAdditions additions_;

  // The decoder's text of token `id`: decoded_bytes_[decoded_begin_[id]] up to [decoded_begin_[id +
  // 1]].
  std::string decoded_bytes_;
  std::vector<uint32_t> decoded_begin_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<TokenModel::Workspace>> idle_;  // guarded by mutex_
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_H_
