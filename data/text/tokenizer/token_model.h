// The "model" of a tokenizer.json: converts a word to tokens. Implementations: BPE
// (data/text/tokenizer/bpe.h), Unigram (data/text/tokenizer/unigram.h), WordPiece
// (data/text/tokenizer/word_piece.h).
#ifndef MOONRING_DATA_TEXT_TOKENIZER_TOKEN_MODEL_H_
#define MOONRING_DATA_TEXT_TOKENIZER_TOKEN_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/tokenizer/vocabulary.h"

namespace moonring::data {

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Buffers for encoding, used by one thread at a time, for one model only.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };
  virtual std::unique_ptr<Workspace> NewWorkspace() const = 0;

  // Appends the token ids of `word`, which must be well-formed UTF-8 unless the model takes bytes.
  virtual void Encode(absl::string_view word, Workspace& workspace,
                      std::vector<int32_t>& ids) const = 0;

  // Whether byte-level words are passed as bytes instead of letters of GPT-2's alphabet.
  virtual bool takes_bytes() const { return false; }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int64_t size() const { return vocabulary_.size(); }
  int32_t end_id() const { return vocabulary_.end_id(); }
  std::optional<int32_t> IdOf(absl::string_view token) const { return vocabulary_.IdOf(token); }
  const std::string* TokenOf(int32_t id) const { return vocabulary_.TokenOf(id); }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_TOKEN_MODEL_H_
