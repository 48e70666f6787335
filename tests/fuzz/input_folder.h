// A temporary folder of this process, for code that reads a folder. It is in memory if the machine
// has a memory file system. Its files are rewritten for each input.
#ifndef MOONRING_TESTS_FUZZ_INPUT_FOLDER_H_
#define MOONRING_TESTS_FUZZ_INPUT_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace moonring::fuzz {

class InputFolder {
 public:
  InputFolder() {
    std::error_code code;
    const std::filesystem::path memory = "/dev/shm";
    path_ = (std::filesystem::is_directory(memory, code) ? memory
                                                         : std::filesystem::temp_directory_path()) /
            "moonring_fuzz_XXXXXX";
    std::string name = path_;  // (not the process id, which sandboxes may repeat)
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  std::string path() const { return path_; }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_INPUT_FOLDER_H_
