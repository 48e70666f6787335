// Text to token ids and back, as a Hugging Face tokenizer.json says, ids and texts equal to those
// of the tokenizers library: byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2, ...) where the
// pre-tokenizer has ByteLevel, else BPE of characters with byte fallback, as sentencepiece's (Llama
// 2, Mistral 7B, Gemma, Phi-3, InternLM, Yi, TinyLlama, ...); Unigram (T5, XLM-R, NLLB, ...) and
// WordPiece (BERT).
//
//   text -> added tokens (data/text/tokenizer/added_tokens.h) -> normalizer -> pre-tokenizer -> the
//       model's tokens of each word -> ids -> decoder (data/text/tokenizer/decoder.h) -> text
//
// Encode adds no token of its own (the post-processor is not read) but knows added and special
// tokens in the text, as Transformers does with add_special_tokens=False. Decode cleans no spaces
// up. Malformed UTF-8 becomes U+FFFD on both ways. tokenizer_config.json (of Transformers 4 or 5)
// adds its added_tokens_decoder and named, additional and extra special tokens to those of
// tokenizer.json, as Transformers does.
//
// Thread-safe: each Encode borrows a workspace that remembers words. Cost of Encode: linear, but n
// log n in one word's length. Creating fails with INVALID_ARGUMENT (malformed JSON:
// `where:LINE:COLUMN`; wrong fields, merges of unknown tokens, ids given twice) or UNIMPLEMENTED,
// which names the part that is not supported: another model (WordLevel), dropout, unknown types.
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

// What is asked of a tokenizer beyond what its files say.
struct TokenizerOptions {
  // New tokens with the next free ids, those that are special behind the others.
  std::vector<std::string> add_tokens, add_special_tokens;
  bool split_special_tokens = false;  // a text that spells a special token is a text like any other
};

// What a tokenizer has beyond its files (data/text/tokenizer_files.h writes it into them).
struct TokenizerAdditions {
  std::vector<int32_t> ids;  // of tokens that are new to the added ones, or became special
  std::vector<std::string> stop_words;  // those of them that a template ends answers with
  bool eos = false;                     // it is another one than the files name

  bool any() const { return !ids.empty() || eos; }
};

class Tokenizer {
 public:
  // Contents of the two files (the second may be empty); `where` names the first in messages.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromJson(
      absl::string_view tokenizer_json, absl::string_view tokenizer_config_json,
      absl::string_view where, const TokenizerOptions& options = {});

  // A folder without tokenizer.json: a sentencepiece model
  // (data/text/tokenizer_formats/sentencepiece_tokenizer.h), tiktoken's ranks
  // (data/text/tokenizer_formats/tiktoken_rules.h) or Mistral's tekken.json
  // (data/text/tokenizer_formats/tekken.h), told apart by their contents. tokenizer_config.json
  // says of the former whether a space comes before each part (legacy, the default) or the text, or
  // none (add_prefix_space false), as for LlamaTokenizerFast; UNIMPLEMENTED where its class numbers
  // the pieces otherwise. Special tokens of a rank file are those of tokenizer_config.json's
  // added_tokens_decoder where it has them.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromModelFile(
      absl::string_view contents, absl::string_view tokenizer_config_json, absl::string_view where,
      const TokenizerOptions& options = {});

  // GPT-2's pair of files: vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
  // <|endoftext|>, where the vocabulary has it, is special, and the bos, eos and unk unless
  // tokenizer_config.json names others.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromVocabAndMerges(
      absl::string_view vocab_json, absl::string_view merges_txt,
      absl::string_view tokenizer_config_json, absl::string_view where,
      const TokenizerOptions& options = {});

  // The same tokenizer with the words that end an answer as special tokens, in LLaMA-Factory's
  // order; those that it lacks get the next free ids:
  //   eos         where given, and another one than it has: its eos from now on
  //   its own eos, where it would still have none: <|endoftext|>
  //   stop_words  those that are not among its additional special tokens yet
  // Its pad is its eos where it has none.
  static std::shared_ptr<const Tokenizer> WithStopWords(
      const std::shared_ptr<const Tokenizer>& tokenizer, const std::optional<std::string>& eos,
      const std::vector<std::string>& stop_words);

  std::vector<int32_t> Encode(absl::string_view text) const;

  // Ids that no token has are passed over, as are special tokens with `skip_special`.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special = false) const;

  // A token by its text in the vocabulary (byte-level: in GPT-2's alphabet; an added token as it is
  // written).
  std::optional<int32_t> IdOf(absl::string_view token) const;
  std::string TokenOf(int32_t id) const;  // empty where no token has that id
  bool IsSpecial(int32_t id) const;
  // The special tokens that have no name (Transformers' additional_special_tokens), stop words
  // among them.
  std::vector<int32_t> more_special_ids() const;

  int64_t vocab_size() const;  // tokens, added ones included
  int32_t end_id() const;      // one more than the largest id
  const AddedTokens& added_tokens() const { return *added_; }
  const TokenizerAdditions& additions() const { return additions_; }

  // As tokenizer_config.json names them.
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  std::optional<int32_t> pad() const { return pad_; }
  std::optional<int32_t> unk() const { return unk_; }

  // Whether its class in Transformers puts a bos before each text (add_bos_token). Encode never
  // does.
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

  std::string where_;  // its file, for messages

  // Shared by a tokenizer and those made from it.
  std::shared_ptr<const TokenModel> model_;
  std::shared_ptr<const Normalizer> normalizer_;
  std::shared_ptr<const PreTokenizer> pre_tokenizer_;
  std::shared_ptr<const Decoder> decoder_;
  std::optional<AddedTokens> added_;
  std::optional<int32_t> bos_, eos_, pad_, unk_;
  bool adds_bos_ = false;
  bool split_special_ = false;
  std::vector<std::string>
      more_special_;  // beside those that have a name (additional_special_tokens)
  TokenizerAdditions additions_;

  // What the decoder joins for the token of an id: decoded_bytes_[decoded_begin_[id]] up to
  // [decoded_begin_[id + 1]].
  std::string decoded_bytes_;
  std::vector<uint32_t> decoded_begin_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<TokenModel::Workspace>> idle_;  // under mutex_
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_H_
