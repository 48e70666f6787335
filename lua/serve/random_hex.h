#ifndef MOONRING_LUA_SERVE_RANDOM_HEX_H_
#define MOONRING_LUA_SERVE_RANDOM_HEX_H_

// Random bytes of the kernel as hexadecimal digits: for keys and ids that nobody can guess.

#include <cstddef>
#include <string>

namespace moonring::serve {

std::string RandomHex(size_t bytes);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_RANDOM_HEX_H_
