#include "lua/vm/isolated_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

// Limits on the output of one call.
constexpr int64_t kMostLines = 1000, kMostBytes = 1 << 20;

Host HostOfIsolated(const Host& maker, const IsolatedStateOptions& options,
                    std::function<void(const std::string&)> keep) {
  base::ConfinementOptions confinement{.any_file = true, .memory = options.memory};
  Limits limits{
      .confinement = base::ValueOrThrow(base::Confinement::Create(std::move(confinement))),
      .outer = maker.limits.confinement,
      .cancel = maker.limits.cancel,
      .has_deadline = true};
  return Host{.assets = maker.assets,
              .libraries = maker.libraries,
              .device = maker.device,
              .sandbox = maker.sandbox,
              .limits = std::move(limits),
              .memory_limit = options.memory_limit,
              .embedded = true,  // disables os.exit, and output comes to this object
              .log = [keep = std::move(keep)](LogKind, const std::string& line) { keep(line); }};
}

}  // namespace

IsolatedState::IsolatedState(Host& maker, IsolatedStateOptions options)
    : options_(std::move(options)),
      maker_(maker),
      vm_(std::make_unique<Vm>(
          HostOfIsolated(maker, options_, [this](const std::string& line) { Keep(line); }))) {
  limits_ = &HostOf(vm_->state()).limits;
}

IsolatedState::Outcome IsolatedState::Call(const std::string& function,
                                           const std::vector<PlainValue>& arguments,
                                           double seconds) {
  Outcome outcome;
  const auto deadline = Limits::Clock::now() + std::chrono::duration_cast<Limits::Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  const Limits& makers = maker_.limits;
  if (makers.instructions > 0)
    limits_->instructions = std::max<int64_t>(1, makers.instructions - makers.counted);
  outcome.error = vm_->Do(deadline, [&](lua_State* L) {
    lua_getglobal(L, "require");
    lua_pushstring(L, options_.module.c_str());
    lua_call(L, 1, 1);
    lua_getfield(L, -1, function.c_str());
    const int base = lua_gettop(L) - 1;
    for (const PlainValue& argument : arguments) PushPlain(L, argument);
    lua_call(L, static_cast<int>(arguments.size()), LUA_MULTRET);
    const int last = lua_gettop(L);
    for (int i = base + 1; i <= last; ++i) outcome.results.push_back(ReadPlain(L, i));
  });
  maker_.limits.counted += limits_->counted;
  if (outcome.error.exit_code == 0) return outcome;
  outcome.results.clear();
  const bool cancelled = makers.cancel != nullptr && EndsNow(makers.cancel->load());
  outcome.end = cancelled                    ? End::kCancelled
                : limits_->passed_deadline   ? End::kDeadline
                : outcome.error.heap_is_full ? End::kMemory
                                             : End::kRaised;
  return outcome;
}

void IsolatedState::Keep(const std::string& line) {
  ++printed_;
  const auto kept = static_cast<int64_t>(lines_.size());
  const auto size = static_cast<int64_t>(line.size());
  if (printed_ > kept + 1 || kept >= kMostLines || bytes_ + size > kMostBytes) return;
  lines_.push_back(line);
  bytes_ += size;
}

std::vector<std::string> IsolatedState::TakeLines() {
  std::vector<std::string> lines = std::exchange(lines_, {});
  const int64_t more = std::exchange(printed_, 0) - static_cast<int64_t>(lines.size());
  if (more > 0) lines.push_back(absl::StrCat("(", more, " lines more)"));
  bytes_ = 0;
  return lines;
}

}  // namespace moonring::lua
