// Bytes per second of Encode on English-like text in pieces of 4 KB, for several tokenizers: in the
// first pass (no word is cached), in later passes, and for one word of 1 MB. To run: `bazel run -c
// opt //tests/data/tokenizer:tokenizer_benchmark`; TEXT_FILE=path uses another text.
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "data/text/tokenizer.h"
#include "tests/testing/runfiles.h"

namespace moonring::data {
namespace {

using moonring::testing::ReadRunfile;

std::shared_ptr<const Tokenizer> Load(int which) {
  if (which == 0) {
    return *Tokenizer::FromVocabAndMerges(ReadRunfile("external/tokenizers/gpt2/encoder.json"),
                                          ReadRunfile("external/tokenizers/gpt2/vocab.bpe"), "",
                                          "gpt2");
  }
  const std::string path = which == 1 ? "external/tokenizers/llama3/tokenizer.json"
                                      : "external/tokenizers/qwen3/tokenizer.json";
  return *Tokenizer::FromJson(ReadRunfile(path), "", path);
}

std::string Text() {
  if (const char* file = std::getenv("TEXT_FILE")) return ReadRunfile(file);
  std::string text;  // from golden files: mostly digits and punctuation
  for (const char* name : {"strings.json", "smollm2.json", "llama3.json"})
    text += ReadRunfile(std::string("tests/golden/tokenizer/") + name);
  return text;
}

void EncodeAll(const Tokenizer& tokenizer, absl::string_view text) {
  constexpr size_t kPiece = 4096;
  for (size_t at = 0; at < text.size(); at += kPiece)
    benchmark::DoNotOptimize(tokenizer.Encode(text.substr(at, kPiece)));
}

void BM_FirstPass(benchmark::State& state) {
  const std::string text = Text();
  for (auto _ : state) {
    state.PauseTiming();
    const auto tokenizer = Load(static_cast<int>(state.range(0)));
    state.ResumeTiming();
    EncodeAll(*tokenizer, text);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(BM_FirstPass)->DenseRange(0, 2)->Iterations(3)->Unit(benchmark::kMillisecond);

void BM_FurtherPasses(benchmark::State& state) {
  const std::string text = Text();
  const auto tokenizer = Load(static_cast<int>(state.range(0)));
  EncodeAll(*tokenizer, text);
  for (auto _ : state) EncodeAll(*tokenizer, text);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(BM_FurtherPasses)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void BM_OneLongWord(benchmark::State& state) {
  std::string word(size_t{1} << 20, 'a');
  uint32_t random = 1;
  for (char& c : word) c = static_cast<char>('a' + (random = random * 1664525 + 1013904223) % 26);
  const auto tokenizer = Load(1);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->Encode(word));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * word.size()));
}
BENCHMARK(BM_OneLongWord)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moonring::data

BENCHMARK_MAIN();
