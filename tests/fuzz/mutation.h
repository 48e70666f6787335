// Small random changes of an input, for runs without libFuzzer. They are fast and not guided by
// coverage.
#ifndef MOONRING_TESTS_FUZZ_MUTATION_H_
#define MOONRING_TESTS_FUZZ_MUTATION_H_

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace moonring::fuzz {

// `input` with one to four changes: bytes changed, erased, duplicated, or copied from one of
// `others`. The result has at most `most` bytes.
inline std::string Mutated(std::string input, const std::vector<std::string>& others,
                           std::mt19937_64& random, size_t most) {
  const auto below = [&](size_t end) { return end == 0 ? 0 : random() % end; };
  static const std::string kOdd[] = {std::string(1, '\0'),
                                     "\xff",
                                     "\xff\xff\xff\xff",
                                     "9999999999",
                                     std::string(8, '\0'),
                                     "{",
                                     "\"",
                                     "-1",
                                     "\x7f\xff\xff\xff",
                                     "[[",
                                     "\n",
                                     "\\u0000"};
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(input.size() + 1), size = 1 + below(1 + below(64));
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << below(8));
        break;
      case 1:
        input.erase(at, size);
        break;
      case 2:
        input.insert(at, input.substr(below(input.size() + 1), size));
        break;
      case 3: {
        const std::string& odd = kOdd[below(std::size(kOdd))];
        input.replace(at, below(2) * odd.size(), odd);
        break;
      }
      case 4: {
        const std::string& other = others[below(others.size())];
        const size_t from = below(other.size() + 1);
        input.replace(at, size, other, from, 1 + below(256));
        break;
      }
      default:
        if (at < input.size()) input[at] = static_cast<char>(random());
    }
  }
  input.resize(std::min(input.size(), most));
  return input;
}

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_MUTATION_H_
