#include "base/files/nameless_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/files/confinement.h"

namespace moonring::base {

int OpenNamelessFile(const std::string& folder) {
  if (!CheckWriting(folder).ok()) {
    errno = EACCES;
    return -1;
  }
  int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 &&
      (errno == EOPNOTSUPP ||
       errno == EISDIR)) {  // the file system has no O_TMPFILE: create by name, then unlink
    std::string path = folder + "/.moonring-XXXXXX";
    descriptor = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor >= 0) unlink(path.c_str());
  }
  return descriptor;
}

}  // namespace moonring::base
