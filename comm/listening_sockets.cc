#include "comm/listening_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "comm/store/secret.h"

namespace moonring::comm {
namespace {

// Requires TCP MD5 signatures (RFC 2385, made for routers) with `key` on every packet to the
// socket, from any address; an empty key removes the requirement. Connections accepted before are
// not affected.
bool WantSignatures(int listening_socket, const std::string& key) {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(listening_socket, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return false;
  tcp_md5sig wanted{};
  wanted.tcpm_addr.ss_family = static_cast<sa_family_t>(family);
  wanted.tcpm_flags = TCP_MD5SIG_FLAG_PREFIX;  // prefix length 0: any address
  wanted.tcpm_keylen = static_cast<uint16_t>(key.size());
  std::memcpy(wanted.tcpm_key, key.data(), key.size());
  return setsockopt(listening_socket, IPPROTO_TCP, TCP_MD5SIG_EXT, &wanted, sizeof wanted) == 0;
}

}  // namespace

std::set<int> ListeningSockets() {
  std::set<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int descriptor = std::atoi(entry->d_name);
    int listens = 0, family = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
      continue;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
        (family == AF_INET || family == AF_INET6))
      found.insert(descriptor);
  }
  return found;
}

void OpenDoor(int listening_socket) { WantSignatures(listening_socket, ""); }

bool ShutDoor(int listening_socket) { return WantSignatures(listening_socket, RandomHex(32)); }

}  // namespace moonring::comm
