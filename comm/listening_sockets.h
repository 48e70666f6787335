#ifndef MOONRING_COMM_LISTENING_SOCKETS_H_
#define MOONRING_COMM_LISTENING_SOCKETS_H_

// Blocks new connections to a listening socket, while connections that it has accepted continue.
//
// Gloo listens as long as its device exists, although it needs to do so only while a group's ranks
// connect. Otherwise a peer that keeps a thousand connections open could end the process, which
// would have no descriptor left for the next connection. So the socket accepts connections only
// while a group's ranks connect.

#include <set>

namespace moonring::comm {

// The descriptors of this process's listening TCP sockets.
std::set<int> ListeningSockets();

// OpenDoor lets new connections through. ShutDoor blocks them without an answer, by requiring TCP
// MD5 signatures with a random key; it returns false if the kernel does not support this.
void OpenDoor(int listening_socket);
bool ShutDoor(int listening_socket);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LISTENING_SOCKETS_H_
