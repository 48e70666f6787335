#ifndef MOONRING_LUA_VM_ASSETS_H_
#define MOONRING_LUA_VM_ASSETS_H_

// Finds the program's files: Lua modules, scripts, the small model of the quickstart.
//
// The program is located by /proc/self/exe with links resolved, and libmoonring.so by the path from
// which it was loaded. The root is the folder with lua/moonring/init.lua and scripts/. It is next
// to the program (in a distribution folder, //:dist; for a library in lib/ one folder up), or in
// the runfiles that Bazel creates next to the program. The working directory and argv[0] are not
// used, because others may control them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::lua {

class Assets {
 public:
  // Finds the root. `library`: the path from which libmoonring.so was loaded; "", or a name without
  // '/', if Moonring is the program itself. In a Bazel test (RUNFILES_DIR or TEST_SRCDIR is an
  // absolute path) the test's runfiles are tried first: a link in them leads to a program whose own
  // runfiles may be from an earlier build. NOT_FOUND, with the paths tried, if none of them is a
  // root.
  static absl::StatusOr<Assets> Find(const std::string& library = "");
  // Uses the given root. NOT_FOUND if it does not contain lua/moonring/init.lua.
  static absl::StatusOr<Assets> At(const std::string& root);

  const std::string& root() const { return root_; }
  // The path of a Lua module: "config.keys" -> <root>/lua/moonring/config/keys.lua; for a folder
  // ("config"), its init.lua.
  std::string module(const std::string& name) const;
  std::string words() const;        // words.txt, jieba's word list
  std::string report_page() const;  // page.html, the page of reports (lua/report/page)
  std::string script(const std::string& name) const;  // "train" -> <root>/scripts/train.lua
  std::vector<std::string> scripts() const;  // sorted names of scripts/*.lua, the subcommands
  // "smollm2" -> its .gguf file; "quickstart.yaml", "quickstart" -> these names in scripts/.
  // NOT_FOUND, with the next step.
  absl::StatusOr<std::string> builtin(const std::string& name) const;
  std::vector<std::string> builtin_models() const;  // files of the available built-in models

 private:
  explicit Assets(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_ASSETS_H_
