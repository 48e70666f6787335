// The fuzz targets of the corpora's test: each makes itself known before main.
#ifndef MOONRING_TESTS_FUZZ_CORPUS_H_
#define MOONRING_TESTS_FUZZ_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace moonring::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

struct Corpus {
  Corpus(const char* name, Target target) { All()[name] = target; }

  // By the name of the target, which its folder in corpus/ has too.
  static std::map<std::string, Target>& All() {
    static std::map<std::string, Target> all;
    return all;
  }
};

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_CORPUS_H_
