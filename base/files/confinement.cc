#include "base/files/confinement.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/visible_text.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;

thread_local std::shared_ptr<Confinement> current;

bool IsBelow(const std::string& path, const std::string& folder) {
  return path == folder ||
         (absl::StartsWith(path, folder) && (folder.back() == '/' || path[folder.size()] == '/'));
}

bool IsBelowAny(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return IsBelow(path, folder); });
}

absl::Status CheckNoNul(const std::string& path) {
  if (path.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", VisibleText(path), "': a path must not contain a NUL (\\x00)"));
}

}  // namespace

std::string WithoutLinks(const std::string& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored);
  std::deque<fs::path> left(whole.begin(), whole.end());
  fs::path reached;
  for (int links = 0; !left.empty();) {
    const fs::path part = left.front();
    left.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      reached = reached.parent_path();
      continue;
    }
    const fs::path next = reached / part;
    if (!part.is_absolute() && fs::is_symlink(next, ignored)) {
      if (++links > kMostLinks) return "";
      const fs::path target = fs::read_symlink(next, ignored);
      left.insert(left.begin(), target.begin(), target.end());
      if (target.is_absolute()) reached = "/";
      continue;
    }
    reached = next;
  }
  return reached.string();
}

absl::StatusOr<std::shared_ptr<Confinement>> Confinement::Create(ConfinementOptions options) {
  if (options.any_file) options.roots = options.readable = {};
  for (std::string& root : options.roots) {
    std::error_code ignored;
    if (!fs::is_directory(root, ignored))
      return absl::InvalidArgumentError(absl::StrCat("--sandbox-root: no folder '", root, "'"));
    root = WithoutLinks(root);
  }
  std::vector<std::string> readable;
  for (const std::string& path : options.readable) {
    if (std::string real = WithoutLinks(path); !real.empty()) readable.push_back(std::move(real));
  }
  options.readable = std::move(readable);
  return std::shared_ptr<Confinement>(new Confinement(std::move(options)));
}

absl::Status Confinement::Check(const std::string& path, bool writes) const {
  if (options_.any_file) return absl::OkStatus();
  // A path with a NUL is refused: this check would read all of it, but the system would stop at the
  // NUL.
  const std::string real =
      path.empty() || path.find('\0') != std::string::npos ? "" : WithoutLinks(path);
  if (!real.empty() &&
      (IsBelowAny(real, options_.roots) || (!writes && IsBelowAny(real, options_.readable))))
    return absl::OkStatus();
  const std::string stands_for = real.empty() || real == path ? "" : absl::StrCat(" (", real, ")");
  return absl::PermissionDeniedError(absl::StrCat("--sandbox: ", path.c_str(), stands_for,
                                                  " is outside of the roots (",
                                                  absl::StrJoin(options_.roots, ", "), ")"));
}

absl::Status Confinement::CheckReading(const std::string& path) const {
  return Check(path, /*writes=*/false);
}

absl::Status Confinement::CheckWriting(const std::string& path) const {
  return Check(path, /*writes=*/true);
}

bool Confinement::Charge(int64_t bytes) {
  charged_.fetch_add(bytes, std::memory_order_relaxed);
  if (options_.memory == 0 || bytes <= 0 || charged() <= options_.memory) return true;
  Release(bytes);
  if (beside_.load(std::memory_order_relaxed) == 0) return false;
  CountHeap();  // some of the heap may have been freed since the last call
  charged_.fetch_add(bytes, std::memory_order_relaxed);
  if (charged() <= options_.memory) return true;
  Release(bytes);
  return false;
}

void Confinement::CountHeap() {
  if (!options_.heap) return;
  const int64_t now = options_.heap(), by_name = charged_.load(std::memory_order_relaxed);
  std::call_once(heap_begins_, [&] { heap_at_start_ = now - by_name; });
  beside_.store(std::max<int64_t>(0, now - heap_at_start_ - by_name), std::memory_order_relaxed);
}

const std::shared_ptr<Confinement>& CurrentConfinement() { return current; }

ChargedBytes::~ChargedBytes() {
  if (confinement_ != nullptr) confinement_->Release(bytes_);
}

absl::Status ChargedBytes::Add(int64_t bytes, const char* what) {
  if (confinement_ == nullptr) return absl::OkStatus();
  if (!confinement_->Charge(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--sandbox-memory: no room for ", bytes, " bytes of ", what, ", ",
                     confinement_->charged(), " of ", confinement_->memory(), " are taken"));
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

ConfinedScope::ConfinedScope(std::shared_ptr<Confinement> confinement)
    : before_(std::exchange(current, std::move(confinement))) {}
ConfinedScope::~ConfinedScope() { current = std::move(before_); }

absl::Status CheckReading(const std::string& path) {
  if (absl::Status whole = CheckNoNul(path); !whole.ok()) return whole;
  return current == nullptr ? absl::OkStatus() : current->CheckReading(path);
}

absl::Status CheckWriting(const std::string& path) {
  if (absl::Status whole = CheckNoNul(path); !whole.ok()) return whole;
  return current == nullptr ? absl::OkStatus() : current->CheckWriting(path);
}

}  // namespace moonring::base
