#include "lua/vm/assets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

struct Builtin {
  const char* name;
  const char* file;  // path below the folder with Bazel's external repositories
};
constexpr Builtin kBuiltins[] = {{"smollm2", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}};

}  // namespace

absl::StatusOr<Assets> Assets::Find(const std::string& library) {
  std::error_code ignored;
  std::vector<fs::path> candidates;
  const auto add_places_by = [&](const fs::path& binary) {
    candidates.push_back(binary.parent_path());
    if (binary.parent_path().filename() == "lib")
      candidates.push_back(binary.parent_path().parent_path());
    candidates.push_back(fs::path(binary.string() + ".runfiles") / "moonring");
  };
  if (library.find('/') != std::string::npos) {
    add_places_by(fs::absolute(library, ignored));
    add_places_by(fs::canonical(library, ignored));
  }
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const char* const folder = std::getenv(variable);
    if (folder != nullptr && fs::path(folder).is_absolute())
      candidates.push_back(fs::path(folder) / "moonring");
  }
  add_places_by(fs::read_symlink("/proc/self/exe", ignored));
  std::vector<std::string> tried;
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate / "lua" / "moonring" / "init.lua", ignored))
      return Assets(candidate.string());
    tried.push_back(candidate.string());
  }
  return absl::NotFoundError(absl::StrCat(
      "Moonring's Lua modules (lua/moonring) are neither next to it nor in its runfiles; tried ",
      absl::StrJoin(tried, ", ")));
}

absl::StatusOr<Assets> Assets::At(const std::string& root) {
  std::error_code ignored;
  if (fs::exists(fs::path(root) / "lua" / "moonring" / "init.lua", ignored)) return Assets(root);
  return absl::NotFoundError(absl::StrCat(root, ": no lua/moonring/init.lua in it"));
}

std::string Assets::module(const std::string& name) const {
  const std::string path =
      absl::StrCat(root_, "/lua/moonring/", absl::StrReplaceAll(name, {{".", "/"}}));
  std::error_code ignored;
  const bool is_room = fs::is_directory(path, ignored);
  return absl::StrCat(path, is_room ? "/init.lua" : ".lua");
}

std::string Assets::words() const { return root_ + "/data/similarity/words.txt"; }

std::string Assets::report_page() const { return root_ + "/lua/report/page.html"; }

std::string Assets::script(const std::string& name) const {
  return absl::StrCat(root_, "/scripts/", name, ".lua");
}

std::vector<std::string> Assets::scripts() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_ + "/scripts", ignored)) {
    if (entry.path().extension() == ".lua") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Assets::builtins() const {
  std::vector<std::string> files;
  for (const Builtin& each : kBuiltins) {
    if (const auto file = builtin(each.name); file.ok()) files.push_back(*file);
  }
  return files;
}

absl::StatusOr<std::string> Assets::builtin(const std::string& name) const {
  for (const Builtin& each : kBuiltins) {
    if (name != each.name) continue;
    std::error_code ignored;
    for (const fs::path& folder : {fs::path(root_).parent_path(), fs::path(root_) / "external",
                                   fs::path(root_) / "models"}) {
      if (fs::exists(folder / each.file, ignored)) return (folder / each.file).string();
    }
    return absl::NotFoundError(absl::StrCat(
        "builtin:", name, " does not come with this binary; name a model folder instead"));
  }
  std::vector<std::string> names;
  for (const Builtin& each : kBuiltins) names.push_back(each.name);
  return absl::NotFoundError(
      absl::StrCat("no built-in model '", name, "'; there is: ", absl::StrJoin(names, ", ")));
}

}  // namespace moonring::lua
