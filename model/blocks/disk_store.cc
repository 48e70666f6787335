#include "model/blocks/disk_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include <ATen/ops/from_blob.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/nameless_file.h"
#include "base/status/torch_status.h"

namespace moonring::model {
namespace {

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

absl::Status Failure(int error, const std::string& folder, absl::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrCat("activation_offload: ", folder, ": ", what));
}

class InMemory : public StoredActivation {
 public:
  explicit InMemory(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  at::Tensor Get() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

}  // namespace

class DiskStore::File {
 public:
  static absl::StatusOr<std::shared_ptr<File>> Create(const std::string& folder) {
    const int descriptor = base::OpenNamelessFile(folder);
    if (descriptor < 0) return Failure(errno, folder, "no file can be made here");
    return std::shared_ptr<File>(new File(descriptor));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Writes `count` bytes; returns 0, or the errno. Asks the kernel to start writing to the disk
  // immediately. Otherwise the kernel might block the program later, to write everything at once.
  int Write(const char* bytes, int64_t count) const {
    for (int64_t done = 0; done < count;) {
      const ssize_t wrote = pwrite(descriptor_, bytes + done,
                                   std::min<int64_t>(count - done, int64_t{1} << 30), done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
      done += wrote;
    }
    sync_file_range(descriptor_, 0, count, SYNC_FILE_RANGE_WRITE);
    return 0;
  }
  void ReadAhead() const { posix_fadvise(descriptor_, 0, 0, POSIX_FADV_WILLNEED); }
  void* Map(int64_t bytes) const {
    return mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  }

 private:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// The state of one stored tensor, shared by its owner and the writer thread.
struct DiskStore::Entry {
  std::shared_ptr<File> file;
  at::Tensor tensor;  // undefined after it is written
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  int64_t bytes = 0;
  bool written = false;
};

// The folder, and the thread that writes files into it.
class DiskStore::Disk {
 public:
  explicit Disk(std::string folder)
      : folder_(std::move(folder)), writer_([this] {
          const absl::Status ended = base::TryTorch([this] { Write(); });
          if (ended.ok()) return;
          // The writer thread failed with an exception, for example out of memory. Callers that
          // wait in Put or Get receive this error.
          const std::lock_guard lock(mutex_);
          if (status_.ok()) status_ = ended;
          changed_.notify_all();
        }) {}
  ~Disk() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    writer_.join();
  }

  std::shared_ptr<Entry> Put(at::Tensor tensor) {
    auto entry = std::make_shared<Entry>();
    entry->file = base::ValueOrThrow(File::Create(folder_));
    entry->sizes = tensor.sizes().vec();
    entry->dtype = tensor.scalar_type();
    entry->bytes = static_cast<int64_t>(tensor.nbytes());
    entry->tensor = std::move(tensor);
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [this] { return static_cast<int>(waiting_.size()) < kUnwritten || !status_.ok(); });
    base::ThrowIfError(status_);
    waiting_.push_back(entry);
    stored_.push_back(entry);
    stored_bytes_ += entry->bytes;
    lock.unlock();
    changed_.notify_all();
    return entry;
  }

  at::Tensor Get(const std::shared_ptr<Entry>& entry) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entry->written || !status_.ok(); });
    base::ThrowIfError(status_);
    const auto here = std::find(stored_.begin(), stored_.end(), entry);
    if (here != stored_.begin() && (*std::prev(here))->written)
      (*std::prev(here))->file->ReadAhead();
    lock.unlock();
    void* const address = entry->file->Map(entry->bytes);
    if (address == MAP_FAILED)
      base::ThrowIfError(Failure(
          errno, folder_, absl::StrCat("mapping ", Mebibytes(entry->bytes), " that were written")));
    const auto unmap = [bytes = entry->bytes](void* mapped) { munmap(mapped, bytes); };
    return at::from_blob(address, entry->sizes, unmap, at::TensorOptions().dtype(entry->dtype));
  }

  void Drop(const std::shared_ptr<Entry>& entry) {
    const std::lock_guard lock(mutex_);
    stored_.remove(entry);
    stored_bytes_ -= entry->bytes;
    // A tensor that is released before it was written is not written.
    const auto unwritten = std::find(waiting_.begin(), waiting_.end(), entry);
    if (unwritten != waiting_.end()) waiting_.erase(unwritten);
  }

  int64_t stored_bytes() const {
    const std::lock_guard lock(mutex_);
    return stored_bytes_;
  }

 private:
  void Write() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty() || ends_; });
      if (ends_) return;
      const std::shared_ptr<Entry> entry = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int error = entry->file->Write(static_cast<const char*>(entry->tensor.const_data_ptr()),
                                           entry->bytes);
      entry->tensor.reset();
      lock.lock();
      entry->written = error == 0;
      if (error != 0 && status_.ok()) {
        status_ = Failure(error, folder_,
                          absl::StrCat("writing ", Mebibytes(entry->bytes), ", ",
                                       Mebibytes(stored_bytes_), " in all"));
      }
      changed_.notify_all();
    }
  }

  const std::string folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> waiting_;
  std::list<std::shared_ptr<Entry>> stored_;  // in the order of Put
  int64_t stored_bytes_ = 0;
  absl::Status status_;
  bool ends_ = false;
  std::thread writer_;
};

class DiskStore::Stored : public StoredActivation {
 public:
  Stored(std::shared_ptr<Disk> disk, std::shared_ptr<Entry> entry)
      : disk_(std::move(disk)), entry_(std::move(entry)) {}
  ~Stored() override { disk_->Drop(entry_); }
  at::Tensor Get() override { return disk_->Get(entry_); }

 private:
  std::shared_ptr<Disk> disk_;
  std::shared_ptr<Entry> entry_;
};

absl::StatusOr<std::shared_ptr<DiskStore>> DiskStore::Create(const std::string& folder) {
  struct statfs system {};
  if (statfs(folder.c_str(), &system) != 0)
    return Failure(errno, folder, "expected a folder on a disk");
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation_offload: ", folder,
                     ": is in memory itself (tmpfs), expected a folder on a disk"));
  }
  const absl::StatusOr<std::shared_ptr<File>> probe = File::Create(folder);
  if (!probe.ok()) return probe.status();
  return std::shared_ptr<DiskStore>(new DiskStore(std::make_shared<Disk>(folder)));
}

DiskStore::~DiskStore() = default;

std::unique_ptr<StoredActivation> DiskStore::Put(at::Tensor activation) {
  TORCH_CHECK(activation.is_cpu(),
              "activation_offload: disk takes tensors of the host, got one on ",
              activation.device());
  if (static_cast<int64_t>(activation.nbytes()) < kLeastBytes)
    return std::make_unique<InMemory>(std::move(activation));
  return std::make_unique<Stored>(disk_, disk_->Put(activation.detach().contiguous()));
}

int64_t DiskStore::stored_bytes() const { return disk_->stored_bytes(); }

}  // namespace moonring::model
