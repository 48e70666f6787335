#ifndef MOONRING_TESTS_TESTING_SCRATCH_FOLDER_H_
#define MOONRING_TESTS_TESTING_SCRATCH_FOLDER_H_

// A folder for the files of one test, deleted when the object is destroyed.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "gtest/gtest.h"

namespace moonring::testing {

class ScratchFolder {
 public:
  ScratchFolder() {
    static int count = 0;
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("scratch_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ / name; }

  // Writes a file; `name` may contain folders, which are created.
  std::string Write(const std::string& name, std::string_view contents) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << contents;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_SCRATCH_FOLDER_H_
