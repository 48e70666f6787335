// Runs a fuzz target without clang and libFuzzer, with libFuzzer's most important options:
//   NAME [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-max_len=BYTES] [-timeout=SECONDS]
//        [FILE_OR_FOLDER...]
// The default time is 60 s. A single file is replayed; the default folder is
// tests/fuzz/corpus/NAME. An input that ends the process, or takes longer than -timeout (10 s), is
// written to found-NAME.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::string input, found;  // the current input; the path where a failing input is written

void Keep(int signal) {
  const int file = open(found.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file >= 0) (void)!write(file, input.data(), input.size());
  static const char kWords[] = "FOUND: the input is in ";
  (void)!write(2, kWords, sizeof(kWords) - 1);
  (void)!write(2, found.data(), found.size());
  (void)!write(2, "\n", 1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void Run(unsigned timeout) {
  alarm(timeout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

void Take(const fs::path& path, std::vector<std::string>& seeds) {
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) Take(entry.path(), seeds);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = fs::path(argv[0]).filename();
  double seconds = 60;
  uint64_t runs = UINT64_MAX, seed = 1, most = 4096, timeout = 10;
  std::vector<std::string> seeds;
  bool file_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto is = [&](std::string_view option) { return word.starts_with(option); };
    const char* value = argv[i] + std::min(word.size(), word.find('=') + 1);
    if (is("-max_total_time=")) seconds = std::atof(value);
    else if (is("-runs=")) runs = std::strtoull(value, nullptr, 10);
    else if (is("-seed=")) seed = std::strtoull(value, nullptr, 10);
    else if (is("-max_len=")) most = std::strtoull(value, nullptr, 10);
    else if (is("-timeout=")) timeout = std::strtoull(value, nullptr, 10);
    else if (is("-")) return std::fprintf(stderr, "%s: unknown option\n", argv[i]), 2;
    else if (!fs::exists(word)) return std::fprintf(stderr, "%s: no such file\n", argv[i]), 2;
    else Take(word, seeds), file_given = file_given || !fs::is_directory(word);
  }
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY"))
    found = std::string(folder) + "/";
  found += "found-" + name;
  if (seeds.empty()) Take("tests/fuzz/corpus/" + name, seeds);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, &Keep);
  for (const std::string& each : seeds) input = each, Run(timeout);
  if (file_given) return 0;
  std::mt19937_64 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  uint64_t done = 0;
  for (; done < runs && passed() < seconds; ++done) {
    input = moonring::fuzz::Mutated(seeds[random() % seeds.size()], seeds, random, most);
    Run(timeout);
  }
  std::printf("%-16s nothing found in %llu inputs, %.0f a second\n", name.c_str(),
              static_cast<unsigned long long>(done), done / passed());
  return 0;
}
