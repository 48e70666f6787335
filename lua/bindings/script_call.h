#ifndef MOONRING_LUA_BINDINGS_SCRIPT_CALL_H_
#define MOONRING_LUA_BINDINGS_SCRIPT_CALL_H_

// Collectives that scripts call: each is announced with the script's line before it exchanges data,
// so that ranks that make different calls get an error that names them (comm/matched_call.h).

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

#include "absl/strings/string_view.h"
#include "comm/communicator.h"

namespace moonring::lua {

// Announces the running call and returns the `number` that each rank passed. `what`: all that must
// be the same on all ranks. Throws if the ranks make different calls.
std::vector<int64_t> MatchScriptCall(lua_State* L, comm::Communicator& group, std::string what,
                                     int64_t number = 0);

// "mesh:sum_sp of fp32 [2, 3]": a call with a tensor of the same dtype and shape on every rank.
std::string CallWith(absl::string_view function, const at::Tensor& tensor);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_SCRIPT_CALL_H_
