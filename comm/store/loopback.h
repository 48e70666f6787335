#ifndef MOONRING_COMM_STORE_LOOPBACK_H_
#define MOONRING_COMM_STORE_LOOPBACK_H_

// Which addresses lead to this machine itself.

#include "absl/strings/string_view.h"

namespace moonring::comm {

// Whether `host`, without a port, is "localhost", of 127.0.0.0/8, or ::1, also as a URL writes it
// ([::1]). Nothing is looked up: another name of this machine is none of them.
bool IsLoopback(absl::string_view host);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_LOOPBACK_H_
