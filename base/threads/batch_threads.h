#ifndef MOONRING_BASE_THREADS_BATCH_THREADS_H_
#define MOONRING_BASE_THREADS_BATCH_THREADS_H_

// While an object of BatchThreads is alive, new threads use Linux's batch policy (SCHED_BATCH,
// sched(7)): such a thread does not preempt a running thread when it wakes up.
//
// Gloo's loop threads need this. A message wakes the receiver's loop thread, which under the
// default policy may preempt the very thread that has locked the connection. The loop then finds
// the lock taken and polls repeatedly until its time slice ends. With fewer cores than threads this
// took an eighth of all CPU time: 35 attention tests of up to 4 ranks on 2 cores took 55 s; with
// batch threads 46 s.

namespace moonring::base {

class BatchThreads {
 public:
  // Changes the calling thread's policy, which new threads inherit, but only from SCHED_OTHER, the
  // default: a policy that the user chose is kept.
  BatchThreads();
  ~BatchThreads();  // restores the policy; must run on the constructing thread

  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  const bool changed_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_BATCH_THREADS_H_
