// Registry of fuzz targets for corpus_test: a static Corpus registers each target before main.
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

  // Targets by name; the inputs of a target are in corpus/NAME.
  static std::map<std::string, Target>& All() {
    static std::map<std::string, Target> all;
    return all;
  }
};

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_CORPUS_H_
