#include "lua/autograd/running_backward.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status/torch_status.h"
#include "lua/binding/error_value.h"
#include "lua/binding/tensor.h"

namespace moonring::lua {

struct BackwardState {
  lua_State* main = nullptr;     // null after the state is closed
  lua_State* running = nullptr;  // the coroutine whose backward runs
  int raised = LUA_NOREF;        // reference to the Lua error raised inside it
};

namespace {

const char kState = 0;  // its address is the registry key

// Carries a Lua error through LibTorch's engine, as a C++ exception.
class RaisedByLua : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::shared_ptr<BackwardState>& StateOf(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kState));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* const state = static_cast<std::shared_ptr<BackwardState>*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *state;
}

int CloseState(lua_State* L) {
  auto* const state = static_cast<std::shared_ptr<BackwardState>*>(lua_touserdata(L, 1));
  (*state)->main = nullptr;
  state->~shared_ptr();
  return 0;
}

struct CallBody {
  const absl::FunctionRef<int(lua_State*)>& push;
  const absl::FunctionRef<void(lua_State*, int)>& read;
};

// The C function that lua_pcall runs. Arguments: the Lua function to call, and the CallBody.
int CallProtected(lua_State* L) {
  const auto& body = *static_cast<const CallBody*>(lua_touserdata(L, 2));
  lua_remove(L, 2);
  const int arguments = body.push(L);
  // Runs the function in a moonring.scope, so that tensors that it creates are closed at its end.
  lua_pushcfunction(L, &Scope);
  lua_insert(L, 1);
  lua_call(L, arguments + 1, LUA_MULTRET);
  body.read(L, 1);
  return 0;
}

}  // namespace

void OpenRunningBackward(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kState));
  auto state = std::make_shared<BackwardState>();
  state->main = L;
  new (lua_newuserdata(L, sizeof(state))) std::shared_ptr<BackwardState>(std::move(state));
  lua_newtable(L);
  lua_pushcfunction(L, &CloseState);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

int RunBackward(lua_State* L, absl::FunctionRef<int()> body) {
  const std::shared_ptr<BackwardState> state = StateOf(L);
  struct Running {
    Running(BackwardState& of, lua_State* now) : state(of), before(of.running) { of.running = now; }
    ~Running() { state.running = before; }
    BackwardState& state;
    lua_State* const before;
  };
  int raised = LUA_NOREF;
  {
    const Running running(*state, L);
    try {
      return body();
    } catch (const RaisedByLua&) {
      raised = std::exchange(state->raised, LUA_NOREF);
    }
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, raised);
  luaL_unref(L, LUA_REGISTRYINDEX, raised);
  return lua_error(L);
}

HeldValue::HeldValue(lua_State* L, int index) : state_(StateOf(L)) {
  lua_pushvalue(L, index);
  reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

HeldValue::~HeldValue() {
  if (state_->main != nullptr) luaL_unref(state_->main, LUA_REGISTRYINDEX, reference_);
}

void HeldValue::Push(lua_State* L) const { lua_rawgeti(L, LUA_REGISTRYINDEX, reference_); }

void HeldValue::Call(absl::FunctionRef<int(lua_State*)> push,
                     absl::FunctionRef<void(lua_State*, int first)> read) const {
  lua_State* const L = state_->running;
  if (state_->main == nullptr || L == nullptr) {
    throw base::StatusError(absl::FailedPreconditionError(
        "a backward in Lua runs only in a backward that Lua asked for"));
  }
  const int top = lua_gettop(L);
  const CallBody body{push, read};
  luaL_checkstack(L, LUA_MINSTACK, "a backward in Lua");
  lua_pushcfunction(L, &CallProtected);
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
  lua_pushlightuserdata(L, const_cast<CallBody*>(&body));
  if (lua_pcall(L, 2, 0, 0) == 0) return;
  const std::string text = ReadError(L, -1).Text();
  luaL_unref(L, LUA_REGISTRYINDEX, state_->raised);
  state_->raised = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_settop(L, top);
  throw RaisedByLua(text);
}

}  // namespace moonring::lua
