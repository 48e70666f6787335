// Reads files that a test lists in its `data`. Tests run in the main repository's runfiles folder.
#ifndef MOONRING_TESTS_TESTING_RUNFILES_H_
#define MOONRING_TESTS_TESTING_RUNFILES_H_

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace moonring::testing {

// Returns a file's contents. `path` is relative to this repository, or is "external/NAME/..." for
// another one.
inline std::string ReadRunfile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no runfile " + path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_RUNFILES_H_
