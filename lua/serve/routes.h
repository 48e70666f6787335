#ifndef MOONRING_LUA_SERVE_ROUTES_H_
#define MOONRING_LUA_SERVE_ROUTES_H_

// The requests that a service answers: one row of a table (routes.cc) for each.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::serve {

struct Route;

// A route, and the parts of the path that its pattern leaves open.
struct Match {
  const Route* route = nullptr;
  std::vector<std::string> parts;
  std::vector<std::string> methods;  // of all routes with this path
};

// The route of a request. `route` is null if there is none; `methods` is empty if the path is
// unknown.
Match FindRoute(absl::string_view method, absl::string_view path);

// The paths of all routes without "*", for messages.
std::vector<std::string> AllPaths();

// Whether a path belongs to OpenAI's API, whose errors have a form of their own.
bool IsOpenAiPath(absl::string_view path);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_ROUTES_H_
