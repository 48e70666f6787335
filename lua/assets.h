#ifndef MOONRING_LUA_ASSETS_H_
#define MOONRING_LUA_ASSETS_H_

// Where the host finds what it carries: its Lua modules, its scripts, the small model of the
// quickstart.
//
// The binary is found by the kernel's own word (/proc/self/exe), links followed, libmoonring.so by
// the path that it was loaded from. Beside it (a folder to carry, //:dist; for a library in lib/
// one folder up), or in the runfiles that Bazel lays beside it, lies a root with
// lua/moonring/init.lua and scripts/. Neither the working directory nor argv[0] is looked at: what
// lies there is anybody's.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::lua {

class Assets {
 public:
  // `library`: the path that libmoonring.so was loaded from; "", or a name without '/': the host.
  // In a test of Bazel's (RUNFILES_DIR, TEST_SRCDIR, absolute) its runfiles come first: a link in
  // them leads to a program whose own may be of an earlier build. NOT_FOUND, naming the places
  // tried, where no root is there.
  static absl::StatusOr<Assets> Find(const std::string& library = "");
  // The root itself. NOT_FOUND where it is none.
  static absl::StatusOr<Assets> At(const std::string& root);

  const std::string& root() const { return root_; }
  // "config.keys" -> <root>/lua/moonring/config/keys.lua; of a folder ("config"), its init.lua.
  std::string module(const std::string& name) const;
  std::string words() const;        // words.txt, what jieba knows of Chinese
  std::string report_page() const;  // page.html, what a report is made of (lua/report/page)
  std::string script(const std::string& name) const;  // "train" -> <root>/scripts/train.lua
  std::vector<std::string> scripts() const;  // the subcommands: names of scripts/*.lua, sorted
  absl::StatusOr<std::string> builtin(
      const std::string& name) const;         // "smollm2" -> the file that a wheel brought
  std::vector<std::string> builtins() const;  // the files of those that are there

 private:
  explicit Assets(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_ASSETS_H_
