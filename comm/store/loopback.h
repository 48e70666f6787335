#ifndef MOONRING_COMM_STORE_LOOPBACK_H_
#define MOONRING_COMM_STORE_LOOPBACK_H_

// Checks whether an address refers to this machine.

#include "absl/strings/string_view.h"

namespace moonring::comm {

// Whether `host`, without a port, is "localhost", in 127.0.0.0/8, or ::1, also in a URL's form
// [::1]. No name is resolved: any other name of this machine returns false.
bool IsLoopback(absl::string_view host);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_LOOPBACK_H_
