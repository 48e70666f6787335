#ifndef MOONRING_TRAINER_RESOURCES_H_
#define MOONRING_TRAINER_RESOURCES_H_

// The memory of this process, as the kernel counts it.

#include <cstdint>

namespace moonring::trainer {

// The most that was ever resident, in bytes. 0 where the kernel does not say.
int64_t PeakResidentBytes();

// What is resident now.
int64_t ResidentBytes();

// Of it, the pages that no file backs: RssAnon + RssShmem. 0 where the kernel does not say; exact
// to some 100 KiB (it counts in batches, a thread or a core).
int64_t AnonymousBytes();

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RESOURCES_H_
