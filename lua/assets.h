#ifndef MOONRING_LUA_ASSETS_H_
#define MOONRING_LUA_ASSETS_H_

// Finds the program's files: Lua modules, scripts, the small model of the quickstart.
//
// The program is located by /proc/self/exe with links resolved, libmoonring.so by the path from
// which it was loaded. The root with lua/moonring/init.lua and scripts/ is next to it (in a
// distribution folder, //:dist; for a library in lib/ one folder up), or in the runfiles that Bazel
// creates next to it. The working directory and argv[0] are not used, because others may control
// them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::lua {

class Assets {
 public:
  // `library`: the path from which libmoonring.so was loaded; "", or a name without '/': this is
  // the program. In a Bazel test (RUNFILES_DIR, TEST_SRCDIR, absolute) the test's runfiles come
  // first: a link in them leads to a program whose own runfiles may be from an earlier build.
  // NOT_FOUND, with the paths tried, if none is a root.
  static absl::StatusOr<Assets> Find(const std::string& library = "");
  // Uses the given root. NOT_FOUND if it is not one.
  static absl::StatusOr<Assets> At(const std::string& root);

  const std::string& root() const { return root_; }
  // "config.keys" -> <root>/lua/moonring/config/keys.lua; for a folder ("config"), its init.lua.
  std::string module(const std::string& name) const;
  std::string words() const;        // words.txt, jieba's word list
  std::string report_page() const;  // page.html, the page of reports (lua/report/page)
  std::string script(const std::string& name) const;  // "train" -> <root>/scripts/train.lua
  std::vector<std::string> scripts() const;  // sorted names of scripts/*.lua, the subcommands
  absl::StatusOr<std::string> builtin(
      const std::string& name) const;         // "smollm2" -> the file in the wheel
  std::vector<std::string> builtins() const;  // files of the available ones

 private:
  explicit Assets(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_ASSETS_H_
