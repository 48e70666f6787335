#ifndef MOONRING_LUA_SERVE_ROUTE_TABLE_H_
#define MOONRING_LUA_SERVE_ROUTE_TABLE_H_

// A row of the table of routes.

#include "lua/serve/service_impl.h"

namespace moonring::serve {

using Impl = ServiceImpl;  // short, for the table and its functions

struct Route {
  const char* method;
  const char* path;  // "*" is any part between slashes
  ServiceImpl::Answer (ServiceImpl::*answer)(const ServiceImpl::Asked& asked, const Match& match);
  const char* job = "";  // the name of the job, which the model's thread runs
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_ROUTE_TABLE_H_
