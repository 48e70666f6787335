#ifndef MOONRING_TRAINER_REPORTS_RESOURCES_H_
#define MOONRING_TRAINER_REPORTS_RESOURCES_H_

// Memory of this process, as reported by the kernel.

#include <cstdint>

namespace moonring::trainer {

// Peak resident memory in bytes; 0 if the kernel does not report it.
int64_t PeakResidentBytes();

// Current resident memory in bytes.
int64_t ResidentBytes();

// Resident memory in bytes that no file backs: RssAnon + RssShmem of the kernel. 0 if the kernel
// does not report it; accurate to about 100 KiB (the kernel counts in batches per thread or core).
int64_t AnonymousBytes();

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_RESOURCES_H_
