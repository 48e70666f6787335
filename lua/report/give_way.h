#ifndef MOONRING_LUA_REPORT_GIVE_WAY_H_
#define MOONRING_LUA_REPORT_GIVE_WAY_H_

// Makes this process yield to others: for the process that answers the chat of `moonring watch`
// beside a training.

namespace moonring::lua {

// Gives this process the lowest priority (nice 19), and makes it the first one that the kernel ends
// if memory runs out. Threads that already exist keep their priority.
void GiveWay();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_GIVE_WAY_H_
