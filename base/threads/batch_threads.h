#ifndef MOONRING_BASE_THREADS_BATCH_THREADS_H_
#define MOONRING_BASE_THREADS_BATCH_THREADS_H_

// While it lives, new threads are batch work (SCHED_BATCH of Linux's sched(7)): one that wakes up
// does not preempt a running thread.
//
// Gloo's loop threads need it. A message wakes the receiver's loop thread; by the usual policy it
// may take the core of the very thread that holds the connection's lock. The loop then finds the
// lock taken and polls again, until its time slice ends. Where ranks have fewer cores than threads
// this was an eighth of all processor time: 35 attention tests of up to 4 ranks on 2 cores took
// 55 s; with batch threads 46 s.

namespace moonring::base {

class BatchThreads {
 public:
  // Changes the calling thread's policy, which new threads inherit, and only if it is
  // SCHED_OTHER, the default: a policy that the user chose stays.
  BatchThreads();
  ~BatchThreads();  // restores the policy; on the thread that constructed this

  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  const bool changed_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_BATCH_THREADS_H_
