#include "lua/binding/tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

constexpr size_t kCollectEach = size_t{1} << 30;  // bytes reported between two garbage collections
constexpr int kLookEach = 64;                     // tensors and calls between two checks of the
                                                  // heap

struct NotedWeight {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::string refusal;
};

// The tensors that were created in one scope. When the list grows, entries of destroyed tensors are
// removed.
class ScopedHandles {
 public:
  void Add(const std::shared_ptr<TensorHandle>& handle) {
    if (handles_.size() >= forget_at_) {
      std::erase_if(handles_, [](const auto& one) { return one.expired(); });
      forget_at_ = std::max(kForgetAt, 2 * handles_.size());
    }
    handles_.push_back(handle);
  }
  const std::vector<std::weak_ptr<TensorHandle>>& all() const { return handles_; }

 private:
  static constexpr size_t kForgetAt = 1024;
  std::vector<std::weak_ptr<TensorHandle>> handles_;
  size_t forget_at_ = kForgetAt;
};

struct TensorBook {
  size_t charged = 0;
  int until_look = kLookEach;
  // Model weights by the address of their storage. If an entry's weak pointer has expired, another
  // storage may have the address now.
  absl::flat_hash_map<const c10::StorageImpl*, NotedWeight> weights;
  size_t live_weights = 1;  // number of entries after the last removal of expired ones
  std::vector<ScopedHandles> scopes;
};

const char kBook = 0;  // its address is the registry key

TensorBook& Book(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kBook));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* book = static_cast<TensorBook*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *book;
}

int CollectBook(lua_State* L) {
  static_cast<TensorBook*>(lua_touserdata(L, 1))->~TensorBook();
  return 0;
}

// An open moonring.scope. The destructor closes the tensors of the scope, also after an error.
class OpenScope {
 public:
  explicit OpenScope(TensorBook& book) : book_(book) { book_.scopes.emplace_back(); }
  ~OpenScope() {
    const ScopedHandles handles = std::move(book_.scopes.back());
    book_.scopes.pop_back();
    for (const std::weak_ptr<TensorHandle>& weak : handles.all()) {
      const std::shared_ptr<TensorHandle> handle = weak.lock();
      if (handle == nullptr) continue;
      if (!handle->kept) {
        handle->tensor.reset();
      } else if (!book_.scopes.empty()) {
        handle->kept = false;  // moved out of this scope only; it belongs to the next outer one
        book_.scopes.back().Add(handle);
      }
    }
  }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

  // Moves a tensor out of this scope. Does nothing for a tensor that belongs to an outer scope.
  void Keep(const std::shared_ptr<TensorHandle>& handle) {
    for (const std::weak_ptr<TensorHandle>& mine : book_.scopes.back().all()) {
      if (mine.lock() == handle) handle->kept = true;
    }
  }

 private:
  TensorBook& book_;
};

at::Tensor OpenTensorOf(const char* key, const std::shared_ptr<TensorHandle>& handle) {
  TORCH_CHECK_VALUE(handle->tensor.defined(), "option '", key,
                    "': this tensor is closed (its scope has ended; x:keep() moves it out)");
  return handle->tensor;
}

// Throws if the memory in use exceeds the limit even after a garbage collection.
void CheckHeap(lua_State* L, base::Confinement& confinement) {
  confinement.CountHeap();
  if (confinement.charged() <= confinement.memory()) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  confinement.CountHeap();
  if (confinement.charged() <= confinement.memory()) return;
  throw base::StatusError(base::OutOfMemoryStatus(
      absl::StrCat("out of memory: ", confinement.charged(),
                   " bytes are used by tensors, their handles and graphs, scripts and "
                   "libraries, and --sandbox-memory allows ",
                   confinement.memory())));
}

}  // namespace

void OpenTensorBook(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kBook));
  new (lua_newuserdata(L, sizeof(TensorBook))) TensorBook;
  lua_newtable(L);
  lua_pushcfunction(L, &CollectBook);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

int Scope(lua_State* L) {
  CheckType(L, 1, LUA_TFUNCTION);
  OpenScope scope(Book(L));
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  for (int i = 1; i <= lua_gettop(L); ++i) {
    if (auto* handle = Class<TensorHandle>::Test(L, i); handle != nullptr && *handle != nullptr)
      scope.Keep(*handle);
  }
  return lua_gettop(L);
}

void LookAtHeap(lua_State* L) {
  const std::shared_ptr<base::Confinement>& confinement = base::CurrentConfinement();
  if (confinement == nullptr || confinement->memory() == 0) return;
  TensorBook& book = Book(L);
  if (--book.until_look > 0) return;
  book.until_look = kLookEach;
  CheckHeap(L, *confinement);
}

void NoteWeight(lua_State* L, const at::Tensor& weight, std::string refusal) {
  auto& all = Book(L).weights;
  if (all.size() >= 2 * Book(L).live_weights) {
    absl::erase_if(all, [](const auto& one) { return one.second.storage.expired(); });
    Book(L).live_weights = all.size() + 1;
  }
  all.insert_or_assign(weight.storage().unsafeGetStorageImpl(),
                       NotedWeight{weight.storage().getWeakStorageImpl(), std::move(refusal)});
}

void CheckWrite(lua_State* L, const at::Tensor& into, const char* operation) {
  const auto& all = Book(L).weights;
  if (all.empty() || !into.has_storage()) return;
  const auto found = all.find(into.storage().unsafeGetStorageImpl());
  if (found == all.end() || found->second.storage.expired()) return;
  if (!found->second.refusal.empty()) {
    base::ThrowIfError(
        absl::InvalidArgumentError(absl::StrCat(operation, ": ", found->second.refusal)));
  }
  base::CountWritten(base::MemoryPart::kWeights, into);  // a memory-mapped page may become private
                                                         // by the write
}

at::Tensor Value<at::Tensor>::Read(lua_State* L, int index) {
  const std::shared_ptr<TensorHandle> handle = Class<TensorHandle>::Read(L, index);
  if (!handle->tensor.defined())
    throw ValueError(index, "this tensor is closed (its scope has ended; x:keep() moves it out)");
  return handle->tensor;
}

int Value<at::Tensor>::Push(lua_State* L, const at::Tensor& tensor) {
  if (!tensor.defined()) return lua_pushnil(L), 1;
  LookAtHeap(L);
  auto handle = std::make_shared<TensorHandle>(TensorHandle{tensor});
  TensorBook& book = Book(L);
  if (!book.scopes.empty()) book.scopes.back().Add(handle);
  // The bytes of a view are already counted; a sparse tensor has no storage of its own.
  if (tensor.has_storage() && !tensor.is_view()) book.charged += tensor.storage().nbytes();
  Class<TensorHandle>::Push(L, std::move(handle));
  const std::shared_ptr<base::Confinement>& confinement = base::CurrentConfinement();
  const bool limited =
      confinement != nullptr &&
      confinement->memory() > 0;  // then unused tensors must not use up the memory limit
  if (book.charged >= (limited
                           ? std::min(kCollectEach, static_cast<size_t>(confinement->memory()) / 8)
                           : kCollectEach)) {
    book.charged = 0;
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
  return 1;
}

at::Tensor TensorOption(Options& options, const char* key) {
  const auto handle = options.Find<std::shared_ptr<TensorHandle>>(key);
  return handle.has_value() ? OpenTensorOf(key, *handle) : at::Tensor();
}

at::Tensor NeededTensor(Options& options, const char* key) {
  return OpenTensorOf(key, options.Require<std::shared_ptr<TensorHandle>>(key));
}

}  // namespace moonring::lua
