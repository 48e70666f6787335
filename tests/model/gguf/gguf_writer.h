#ifndef MOONRING_TESTS_MODEL_GGUF_GGUF_WRITER_H_
#define MOONRING_TESTS_MODEL_GGUF_GGUF_WRITER_H_

// Writes GGUF files byte by byte, valid and invalid ones, according to the format's specification
// (not to Moonring's reader).

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace moonring::testing {

template <typename T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline std::string GgufString(const std::string& text) { return Raw<uint64_t>(text.size()) + text; }

class GgufWriter {
 public:
  enum : uint32_t {
    kU16 = 2,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kU64 = 10
  };

  void Add(const std::string& key, uint32_t type, const std::string& value) {
    pairs_.push_back(GgufString(key) + Raw(type) + value);
  }
  void U32(const std::string& key, uint32_t value) { Add(key, kU32, Raw(value)); }
  void F32(const std::string& key, float value) { Add(key, kF32, Raw(value)); }
  void Bool(const std::string& key, bool value) { Add(key, kBool, Raw<uint8_t>(value)); }
  void String(const std::string& key, const std::string& value) {
    Add(key, kString, GgufString(value));
  }
  void Strings(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = Raw<uint32_t>(kString) + Raw<uint64_t>(values.size());
    for (const std::string& value : values) bytes += GgufString(value);
    Add(key, kArray, bytes);
  }
  void Ints(const std::string& key, const std::vector<int32_t>& values) {
    std::string bytes = Raw<uint32_t>(kI32) + Raw<uint64_t>(values.size());
    for (const int32_t value : values) bytes += Raw(value);
    Add(key, kArray, bytes);
  }
  void Floats(const std::string& key, const std::vector<float>& values) {
    std::string bytes = Raw<uint32_t>(kF32) + Raw<uint64_t>(values.size());
    for (const float value : values) bytes += Raw(value);
    Add(key, kArray, bytes);
  }

  // `shape` is in Hugging Face's order, with the innermost dim last; GGUF stores the reverse order.
  void Tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type,
              const std::string& data) {
    while (data_.size() % alignment_ != 0) data_ += '\0';
    std::string info = GgufString(name) + Raw<uint32_t>(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) info += Raw(shape[i]);
    tensors_.push_back(info + Raw(type) + Raw<uint64_t>(data_.size()));
    data_ += data;
  }
  void FloatTensor(const std::string& name, const std::vector<uint64_t>& shape,
                   const std::vector<float>& values) {
    Tensor(
        name, shape, 0,
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }

  void set_version(uint32_t version) { version_ = version; }
  void set_alignment(uint32_t alignment) {
    alignment_ = alignment;
    U32("general.alignment", alignment);
  }

  std::string Bytes() const {
    std::string bytes =
        "GGUF" + Raw(version_) + Raw<uint64_t>(tensors_.size()) + Raw<uint64_t>(pairs_.size());
    for (const std::string& pair : pairs_) bytes += pair;
    for (const std::string& tensor : tensors_) bytes += tensor;
    while (bytes.size() % alignment_ != 0) bytes += '\0';
    return bytes + data_;
  }

 private:
  uint32_t version_ = 3;
  size_t alignment_ = 32;
  std::vector<std::string> pairs_, tensors_;
  std::string data_;
};

// A whole Llama model: 1 layer, width 8, 2 query heads of dim 4 and 1 kv head, feed-forward width
// 16, a byte-level vocabulary of 12. The n-th weight tensor contains n, n + 1/64, n + 2/64, ...
inline GgufWriter TinyGguf() {
  GgufWriter file;
  file.String("general.architecture", "llama");
  file.U32("llama.block_count", 1);
  file.U32("llama.context_length", 64);
  file.U32("llama.embedding_length", 8);
  file.U32("llama.feed_forward_length", 16);
  file.U32("llama.attention.head_count", 2);
  file.U32("llama.attention.head_count_kv", 1);
  file.F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.F32("llama.rope.freq_base", 100000.0f);
  file.U32("llama.rope.dimension_count", 4);
  file.U32("llama.vocab_size", 12);
  file.String("tokenizer.ggml.model", "gpt2");
  file.String("tokenizer.ggml.pre", "smollm");
  file.Strings("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "c", "ab", "abc", "\xc4\xa0",
                                         "\xc4\xa0"
                                         "a",
                                         "\"", "<tool>", "\\", "d"});
  file.Ints("tokenizer.ggml.token_type", {3, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1});
  file.Strings("tokenizer.ggml.merges", {"a b", "ab c", "\xc4\xa0 a"});
  file.U32("tokenizer.ggml.bos_token_id", 0);
  file.U32("tokenizer.ggml.eos_token_id", 0);
  file.Bool("tokenizer.ggml.add_bos_token", false);
  file.String("tokenizer.chat_template", "{{ messages }}\n");
  int number = 0;
  const auto add = [&](const std::string& name, uint64_t rows, uint64_t columns) {
    std::vector<float> values(rows * (columns == 0 ? 1 : columns));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(number) + static_cast<float>(i) / 64;
    ++number;
    file.FloatTensor(
        name, columns == 0 ? std::vector<uint64_t>{rows} : std::vector<uint64_t>{rows, columns},
        values);
  };
  add("token_embd.weight", 12, 8);
  add("output_norm.weight", 8, 0);
  add("blk.0.attn_norm.weight", 8, 0);
  add("blk.0.attn_q.weight", 8, 8);
  add("blk.0.attn_k.weight", 4, 8);
  add("blk.0.attn_v.weight", 4, 8);
  add("blk.0.attn_output.weight", 8, 8);
  add("blk.0.ffn_norm.weight", 8, 0);
  add("blk.0.ffn_gate.weight", 16, 8);
  add("blk.0.ffn_up.weight", 16, 8);
  add("blk.0.ffn_down.weight", 8, 16);
  return file;
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MODEL_GGUF_GGUF_WRITER_H_
