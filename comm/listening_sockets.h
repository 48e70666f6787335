#ifndef MOONRING_COMM_LISTENING_SOCKETS_H_
#define MOONRING_COMM_LISTENING_SOCKETS_H_

// Shuts a listening socket's door: what it has accepted goes on, and nobody new comes in.
//
// Gloo listens as long as its device lives, though it needs to only while a group's ranks connect,
// and whoever keeps a thousand connections open to it ends the process (it has no descriptor left
// for the next). So the door is opened for that while alone.

#include <set>

namespace moonring::comm {

// The descriptors of this process's TCP sockets that listen.
std::set<int> ListeningSockets();

// Whether new connections get through to it; nothing tells the others why not. False where the
// kernel cannot shut it (it is asked for TCP's MD5 signatures, by a key that nobody has).
void OpenDoor(int listening_socket);
bool ShutDoor(int listening_socket);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LISTENING_SOCKETS_H_
