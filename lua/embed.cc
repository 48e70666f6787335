#include "lua/embed.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/confinement.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"
#include "base/threads/spin_control.h"
#include "lua/binding/error_value.h"
#include "lua/binding/guard.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/limits.h"
#include "lua/vm/version.h"
#include "lua/vm/vm.h"

struct moonring_runtime {
  std::shared_ptr<moonring::lua::CancelFlag> cancel =
      std::make_shared<moonring::lua::CancelFlag>(moonring::lua::Cancel::kNone);
  std::atomic<bool> busy = false;
  int threads = 0;
  std::vector<std::string> commands;
  std::optional<moonring::lua::Assets> assets;
  std::function<void(moonring::lua::LogKind, const std::string&)> log;
  std::string error;
  std::shared_ptr<moonring::base::SpinControl> spin;
  std::unique_ptr<moonring::lua::Vm> vm;
};

namespace moonring::lua {
namespace {

static_assert(static_cast<int>(LogKind::kOutput) == MOONRING_LOG_OUTPUT &&
              static_cast<int>(LogKind::kNote) == MOONRING_LOG_NOTE &&
              static_cast<int>(LogKind::kWarning) == MOONRING_LOG_WARNING);

moonring_code CodeOf(const ErrorValue& error) {
  if (error.out_of_memory) return MOONRING_EXHAUSTED;
  switch (error.code) {
    case absl::StatusCode::kInvalidArgument:
      return MOONRING_INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return MOONRING_NOT_FOUND;
    case absl::StatusCode::kPermissionDenied:
      return MOONRING_PERMISSION_DENIED;
    case absl::StatusCode::kResourceExhausted:
      return MOONRING_EXHAUSTED;
    case absl::StatusCode::kCancelled:
      return MOONRING_CANCELLED;
    default:
      return MOONRING_FAILED;
  }
}

// Runs `body`, which returns a Status, and converts exceptions to a Status. Only a thread's
// cancellation passes through.
template <typename Body>
absl::Status Barrier(const Body& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return base::StatusOfException(exception);
  } catch (abi::__forced_unwind&) {  // pthread_cancel
    throw;
  } catch (...) {
    return absl::InternalError("an error without a message");
  }
}

constexpr size_t kFirstSize = offsetof(moonring_options, context) +
                              sizeof(void*);  // size of the first version of moonring_options

// Copies those fields of the struct that the caller's version of it has; the others keep their
// defaults.
absl::StatusOr<moonring_options> Known(const moonring_options* given) {
  moonring_options options = {};
  if (given == nullptr) return options;
  if (given->size < kFirstSize || given->size > 4096) {
    return absl::InvalidArgumentError("moonring_options: size: expected sizeof(moonring_options)");
  }
  std::memcpy(&options, given, std::min(given->size, sizeof(options)));
  if (options.instructions < 0 || options.memory < 0 || options.threads < 0) {
    return absl::InvalidArgumentError(
        "moonring_options: instructions, memory and threads: expected 0 or more");
  }
  return options;
}

absl::StatusOr<Assets> FindAssets(const char* folder) {
  if (folder != nullptr) return Assets::At(folder);
  Dl_info place = {};
  if (dladdr(reinterpret_cast<const void*>(&moonring_create), &place) == 0 ||
      place.dli_fname == nullptr) {
    return absl::NotFoundError(
        "the library's own place is unknown; name the folder of its modules: options.assets");
  }
  return Assets::Find(place.dli_fname);
}

absl::StatusOr<std::shared_ptr<base::Confinement>> ConfinementOf(const moonring_options& options,
                                                                 const Assets& assets) {
  base::ConfinementOptions wanted{.any_file = options.unconfined != 0, .memory = options.memory};
  if (options.root_count > 0 && options.roots == nullptr)
    return absl::InvalidArgumentError(
        "moonring_options: roots: expected as many as root_count says, got NULL");
  for (size_t i = 0; i < options.root_count; ++i) {
    if (options.roots[i] == nullptr)
      return absl::InvalidArgumentError("moonring_options: roots: a root that is NULL");
    wanted.roots.emplace_back(options.roots[i]);
  }
  if (options.memory > 0 && c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator()) {
    return absl::FailedPreconditionError(
        "moonring_options: memory: moonring_count_memory must come first, else tensors are not "
        "counted");
  }
  if (wanted.any_file && wanted.memory == 0) return nullptr;
  return ConfineTo(std::move(wanted), assets);
}

absl::StatusOr<std::unique_ptr<moonring_runtime>> CreateRuntime(const moonring_options* given) {
  ASSIGN_OR_RETURN(const moonring_options options, Known(given));
  auto runtime = std::make_unique<moonring_runtime>();
  ASSIGN_OR_RETURN(Assets assets, FindAssets(options.assets));
  ASSIGN_OR_RETURN(std::shared_ptr<base::Confinement> confinement, ConfinementOf(options, assets));
  const std::string device = options.device == nullptr ? "auto" : options.device;
  if (device != "auto" && device != "cpu" && device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("moonring_options: device: expected cpu or cuda, got '", device, "'"));
  }
  runtime->threads = options.threads;
  runtime->spin =
      base::SpinControl::Start(options.threads > 0 ? options.threads : at::get_num_threads());
  runtime->commands = assets.scripts();
  runtime->assets = assets;
  if (options.log != nullptr) {
    runtime->log = [call = options.log, context = options.context](LogKind kind,
                                                                   const std::string& line) {
      call(context, static_cast<moonring_log_kind>(kind), line.c_str());
    };
  }
  Host host{.assets = std::move(assets),
            .libraries = AllLibraries(),
            .device = device,
            .sandbox = options.unconfined == 0,
            .embedded = true,
            .log = runtime->log};
  host.limits = {.instructions = options.instructions,
                 .confinement = std::move(confinement),
                 .cancel = runtime->cancel};
  if (options.progress != nullptr) {
    host.progress = [call = options.progress, context = options.context](const std::string& json) {
      call(context, json.c_str());
    };
  }
  runtime->vm = std::make_unique<Vm>(std::move(host));
  return runtime;
}

// While this object exists, LibTorch's warnings on this thread go to the log, and operations use
// the number of threads in the options. The destructor restores both settings.
class CallScope {
 public:
  explicit CallScope(const moonring_runtime& runtime)
      : warnings_(runtime),
        guard_(&warnings_),
        threads_(runtime.threads > 0 ? at::get_num_threads() : 0) {
    if (threads_ > 0) at::set_num_threads(runtime.threads);
  }
  ~CallScope() {
    if (threads_ > 0) at::set_num_threads(threads_);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  class Warnings final : public c10::WarningHandler {
   public:
    explicit Warnings(const moonring_runtime& runtime) : runtime_(runtime) {}
    void process(const c10::Warning& warning) override {
      if (runtime_.log) runtime_.log(LogKind::kWarning, std::string(warning.msg()));
    }

   private:
    const moonring_runtime& runtime_;
  };
  Warnings warnings_;
  c10::WarningUtils::WarningHandlerGuard guard_;
  const int threads_;
};

class BusyScope {
 public:
  explicit BusyScope(moonring_runtime& runtime)
      : runtime_(runtime), mine_(!runtime.busy.exchange(true)) {
    if (mine_) ForgetInterrupt();
  }
  ~BusyScope() {
    if (!mine_) return;
    ForgetInterrupt();
    runtime_.busy = false;
  }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;
  bool mine() const { return mine_; }

 private:
  void ForgetInterrupt() {
    Cancel this_call = Cancel::kThisCall;
    runtime_.cancel->compare_exchange_strong(this_call, Cancel::kNone);
  }

  moonring_runtime& runtime_;
  const bool mine_;
};

// Runs `body`, which returns a ScriptError, as one call on a runtime.
template <typename Body>
moonring_code Call(moonring_runtime* runtime, const Body& body) {
  if (runtime == nullptr) return MOONRING_INVALID_ARGUMENT;
  const BusyScope busy(*runtime);
  if (!busy.mine()) return MOONRING_INVALID_ARGUMENT;  // the error text belongs to the other call
  runtime->error.clear();
  ErrorValue failure;
  bool failed = false;
  const absl::Status status = Barrier([&]() -> absl::Status {
    const CallScope scope(*runtime);
    ASSIGN_OR_RETURN(const ScriptError error, body());
    failed = error.exit_code != 0;
    failure = error.error;
    return absl::OkStatus();
  });
  if (!status.ok()) {
    failed = true;
    failure = ErrorOfStatus(status);
  }
  if (!failed) return MOONRING_OK;
  runtime->error = failure.Text();
  if (runtime->cancel->load() != Cancel::kNone) {  // a cancelled run returns this code whatever its
                                                   // result was
    if (failure.code != absl::StatusCode::kCancelled)
      runtime->error = absl::StrCat("CANCELLED: the run was cancelled: ", runtime->error);
    return MOONRING_CANCELLED;
  }
  return CodeOf(failure);
}

absl::StatusOr<std::vector<std::string>> Words(int argc, const char* const* argv) {
  std::vector<std::string> words;
  if (argc < 0 || (argc > 0 && argv == nullptr))
    return absl::InvalidArgumentError("argv: expected argc words");
  for (int i = 0; i < argc; ++i) {
    if (argv[i] == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("argv: word ", i, " is NULL"));
    words.emplace_back(argv[i]);
  }
  return words;
}

// A tensor that a caller handed over; its deleter runs when the last reference is gone.
using OwnedTensor = std::shared_ptr<DLManagedTensor>;

std::vector<OwnedTensor> Own(DLManagedTensor* const* tensors, size_t count) {
  std::vector<OwnedTensor> owned;
  for (size_t i = 0; tensors != nullptr && i < count; ++i) {
    owned.emplace_back(tensors[i], [](DLManagedTensor* tensor) {
      if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
    });
  }
  return owned;
}

// The tensors as LibTorch's, without copies. Throws for a dtype or a device that LibTorch lacks.
std::vector<at::Tensor> Imported(const std::vector<OwnedTensor>& owned) {
  std::vector<at::Tensor> tensors;
  for (const OwnedTensor& each : owned) {
    TORCH_CHECK_VALUE(each != nullptr, "inputs: input ", tensors.size(), " is NULL");
    DLManagedTensor managed = *each;
    // The offset is added here, whether at::fromDLPack does so or not.
    managed.dl_tensor.data =
        static_cast<char*>(managed.dl_tensor.data) + managed.dl_tensor.byte_offset;
    managed.dl_tensor.byte_offset = 0;
    tensors.push_back(at::fromDLPack(&managed, [each](void*) {}));
  }
  return tensors;
}

// Waits for all work on the devices of these tensors, whatever the stream: the caller's and the
// runtime's streams do not know of each other.
void Synchronize(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    const c10::Device device = tensor.device();
    if (device.is_cpu()) continue;
    c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
  }
}

// The tensors as DLPack's, in an array from malloc. Throws for a tensor without storage.
DLManagedTensor** Exported(const std::vector<at::Tensor>& tensors) {
  struct Made {
    ~Made() {
      for (DLManagedTensor* each : list) each->deleter(each);
    }
    std::vector<DLManagedTensor*> list;
  } made;
  for (const at::Tensor& tensor : tensors) {
    made.list.reserve(made.list.size() + 1);
    made.list.push_back(at::toDLPack(tensor.detach()));
  }
  const size_t bytes = tensors.size() * sizeof(DLManagedTensor*);
  auto* const array = static_cast<DLManagedTensor**>(std::malloc(bytes));
  if (array == nullptr) throw std::bad_alloc();
  std::copy(made.list.begin(), made.list.end(), array);
  made.list.clear();
  return array;
}

absl::StatusOr<ScriptError> RunCommand(moonring_runtime& runtime, const std::string& command,
                                       const std::vector<std::string>& words) {
  const std::vector<std::string>& known = runtime.commands;
  if (std::find(known.begin(), known.end(), command) == known.end()) {
    return absl::NotFoundError(absl::StrCat("no command '", command, "'",
                                            base::DidYouMean(command, known),
                                            "; commands: ", absl::StrJoin(known, ", ")));
  }
  return runtime.vm->Run(runtime.assets->script(command),
                         absl::StrCat(kOwnChunk, "scripts/", command), words);
}

}  // namespace
}  // namespace moonring::lua

using moonring::lua::ScriptError;

const char* moonring_version(void) { return moonring::lua::kVersion; }

moonring_code moonring_create(const moonring_options* options, moonring_runtime** runtime,
                              char* error, size_t error_size) {
  if (runtime == nullptr) return MOONRING_INVALID_ARGUMENT;
  *runtime = nullptr;
  const absl::Status status = moonring::lua::Barrier([&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::unique_ptr<moonring_runtime> made, moonring::lua::CreateRuntime(options));
    *runtime = made.release();
    return absl::OkStatus();
  });
  if (error != nullptr && error_size > 0) {
    const std::string words = status.ok() ? "" : moonring::lua::ErrorOfStatus(status).Text();
    const size_t length = std::min(words.size(), error_size - 1);
    std::memcpy(error, words.data(), length);
    error[length] = '\0';
  }
  return status.ok() ? MOONRING_OK : moonring::lua::CodeOf(moonring::lua::ErrorOfStatus(status));
}

void moonring_destroy(moonring_runtime* runtime) {
  (void)moonring::lua::Barrier([&]() -> absl::Status {
    delete runtime;
    return absl::OkStatus();
  });
}

moonring_code moonring_run_file(moonring_runtime* runtime, const char* path, int argc,
                                const char* const* argv) {
  return moonring::lua::Call(runtime, [&]() -> absl::StatusOr<ScriptError> {
    if (path == nullptr) return absl::InvalidArgumentError("path: expected a file, got NULL");
    ASSIGN_OR_RETURN(const std::vector<std::string> words, moonring::lua::Words(argc, argv));
    return runtime->vm->Run(path, absl::StrCat("@", path), words);
  });
}

moonring_code moonring_run_string(moonring_runtime* runtime, const char* text, const char* name,
                                  int argc, const char* const* argv) {
  return moonring::lua::Call(runtime, [&]() -> absl::StatusOr<ScriptError> {
    if (text == nullptr) return absl::InvalidArgumentError("text: expected Lua, got NULL");
    ASSIGN_OR_RETURN(std::vector<std::string> words, moonring::lua::Words(argc, argv));
    const std::string called = name == nullptr ? "script" : name;
    words.insert(words.begin(), called);
    return runtime->vm->RunText(text, absl::StrCat("@", called), words);
  });
}

moonring_code moonring_run_command(moonring_runtime* runtime, const char* command, int argc,
                                   const char* const* argv) {
  return moonring::lua::Call(runtime, [&]() -> absl::StatusOr<ScriptError> {
    if (command == nullptr) return absl::InvalidArgumentError("command: expected a name, got NULL");
    ASSIGN_OR_RETURN(const std::vector<std::string> words, moonring::lua::Words(argc, argv));
    return moonring::lua::RunCommand(*runtime, command, words);
  });
}

moonring_code moonring_call(moonring_runtime* runtime, const char* function, const char* json,
                            char** result) {
  if (result != nullptr) *result = nullptr;
  moonring::lua::CallResult returned;
  const moonring_code code = moonring::lua::Call(runtime, [&]() -> absl::StatusOr<ScriptError> {
    if (function == nullptr)
      return absl::InvalidArgumentError("function: expected a name, got NULL");
    return runtime->vm->Call(function, json == nullptr ? "" : json, {}, returned);
  });
  if (code == MOONRING_OK && result != nullptr) *result = strdup(returned.json.c_str());
  return code;
}

moonring_code moonring_call_tensors(moonring_runtime* runtime, const char* function,
                                    const char* json, DLManagedTensor* const* inputs,
                                    size_t input_count, char** result, DLManagedTensor*** outputs,
                                    size_t* output_count) {
  using namespace moonring::lua;
  if (result != nullptr) *result = nullptr;
  if (outputs != nullptr) *outputs = nullptr;
  if (output_count != nullptr) *output_count = 0;
  std::vector<OwnedTensor> owned;  // the caller's, from here on
  const absl::Status taken = Barrier([&]() -> absl::Status {
    owned = Own(inputs, input_count);
    return absl::OkStatus();
  });
  if (!taken.ok()) return MOONRING_EXHAUSTED;
  CallResult returned;
  DLManagedTensor** exported = nullptr;
  const moonring_code code = Call(runtime, [&]() -> absl::StatusOr<ScriptError> {
    if (function == nullptr)
      return absl::InvalidArgumentError("function: expected a name, got NULL");
    if (input_count > 0 && inputs == nullptr)
      return absl::InvalidArgumentError("inputs: expected as many as input_count says, got NULL");
    if ((outputs == nullptr) != (output_count == nullptr))
      return absl::InvalidArgumentError("outputs, output_count: expected both, or neither");
    const std::vector<at::Tensor> tensors = Imported(owned);
    Synchronize(tensors);
    owned.clear();
    ScriptError error = runtime->vm->Call(function, json == nullptr ? "" : json, tensors, returned);
    if (error.exit_code == 0 && outputs != nullptr && !returned.tensors.empty()) {
      Synchronize(returned.tensors);
      exported = Exported(returned.tensors);
    }
    return error;
  });
  if (code != MOONRING_OK) return code;
  if (result != nullptr) *result = strdup(returned.json.c_str());
  if (outputs != nullptr) *outputs = exported, *output_count = returned.tensors.size();
  return code;
}

void moonring_free(void* memory) { std::free(memory); }

void moonring_cancel(moonring_runtime* runtime, int save) {
  if (runtime == nullptr) return;
  using moonring::lua::Cancel;
  Cancel none = Cancel::kNone;
  if (save != 0) {
    runtime->cancel->compare_exchange_strong(
        none, Cancel::kAtStep);  // does not replace a request to end at once
    Cancel this_call = Cancel::kThisCall;
    runtime->cancel->compare_exchange_strong(this_call, Cancel::kNow);
  } else {
    runtime->cancel->store(Cancel::kNow);
  }
}

void moonring_interrupt(moonring_runtime* runtime) {
  using moonring::lua::Cancel;
  if (runtime == nullptr || !runtime->busy) return;
  Cancel none = Cancel::kNone;
  runtime->cancel->compare_exchange_strong(none, Cancel::kThisCall);
}

const char* moonring_last_error(const moonring_runtime* runtime) {
  return runtime == nullptr ? "no runtime" : runtime->error.c_str();
}

void moonring_count_memory(void) {
  (void)moonring::lua::Barrier([]() -> absl::Status {
    moonring::base::InstallMemoryAccount();
    return absl::OkStatus();
  });
}
